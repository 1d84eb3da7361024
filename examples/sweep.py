"""Price thousands of call options by Monte Carlo: a sweep over strike, volatility and maturity.

Each option is one small task with a seed of its own, so the result does not depend on who computes what.
`map` with `buffersize=` keeps a bounded number of them under way, and would take an endless sweep as well.
Black and Scholes have a formula for these options, which says whether the prices and their errors are right.

    mpiexec -n 12 python -m sched run examples/sweep.py --strikes 100 --paths 1000000
"""

import argparse
import itertools
import math
import sys
import time
from statistics import NormalDist

import sched

PRICE, RATE = 100.0, 0.03  # today's price of the share; interest per year
VOLATILITIES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5)
MATURITIES = (0.25, 0.5, 1.0, 1.5, 2.0)  # years


def monte_carlo(option, seed, paths):
    """Price one option.

    Returns:
        The price, its standard error, and the tile.
    """
    xp = sched.xp
    strike, volatility, maturity = option
    drift, spread = (RATE - volatility**2 / 2) * maturity, volatility * math.sqrt(maturity)
    chance = xp.random.RandomState(seed).standard_normal(paths)
    payoff = xp.maximum(PRICE * xp.exp(drift + spread * chance) - strike, 0.0)
    discount = math.exp(-RATE * maturity)
    # float() waits for the tile, and lets a number travel rather than an array.
    mean, deviation = float(payoff.mean()), float(payoff.std())
    return discount * mean, discount * deviation / math.sqrt(paths), sched.current().tile


def black_scholes(strike, volatility, maturity):
    spread = volatility * math.sqrt(maturity)
    d = (math.log(PRICE / strike) + (RATE + volatility**2 / 2) * maturity) / spread
    normal = NormalDist().cdf
    return PRICE * normal(d) - strike * math.exp(-RATE * maturity) * normal(d - spread)


def grid(strikes):
    """Yield strike, volatility and maturity; the strikes from far in the money to far out of it."""
    for volatility, maturity in itertools.product(VOLATILITIES, MATURITIES):
        forward, spread = PRICE * math.exp(RATE * maturity), volatility * math.sqrt(maturity)
        for k in range(strikes):
            yield forward * math.exp(spread * (3 * k / (strikes - 1) - 1.5)), volatility, maturity


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--strikes", type=int, default=41, help="for each volatility and maturity; odd (41)")
    parser.add_argument("--paths", type=int, default=10_000, help="random paths for each option (10000)")
    options = parser.parse_args()
    strikes = options.strikes
    if strikes < 3 or strikes % 2 == 0:
        parser.error("--strikes is an odd number from 3 on")

    with sched.Scheduler() as s:
        start = time.perf_counter()
        seeds, paths = itertools.count(), itertools.repeat(options.paths)
        priced = list(s.map(monte_carlo, grid(strikes), seeds, paths, buffersize=16 * s.tiles))
        seconds = time.perf_counter() - start

    used = {tile for _, _, tile in priced}
    exact = [black_scholes(*option) for option in grid(strikes)]
    deviations = [(price - e) / error for (price, error, _), e in zip(priced, exact, strict=True)]

    print("Price at the forward, by volatility and years (in brackets: deviation in standard errors)")
    print("      " + "".join(f"{maturity:^15g}" for maturity in MATURITIES))
    at_the_forward = zip(priced[strikes // 2 :: strikes], deviations[strikes // 2 :: strikes], strict=True)
    for volatility in VOLATILITIES:
        row = itertools.islice(at_the_forward, len(MATURITIES))
        print(f"{volatility:6.2f}" + "".join(f"{price:8.3f} ({d:+.1f})" for (price, _, _), d in row))

    count = len(priced)
    print(f"{count} options: {seconds:.2f} s, {count / seconds:.0f} tasks/s,", end=" ")
    print(f"{count * options.paths / seconds / 1e6:.0f} million paths/s")
    print(f"{len(used)} of {s.tiles} tiles took part")
    worst = max(map(abs, deviations))
    typical = math.sqrt(math.fsum(d * d for d in deviations) / count)
    right = worst < 6 and abs(typical - 1) < 5 / math.sqrt(2 * count)
    verdict = "right" if right else "WRONG"
    print(f"difference to Black-Scholes: {typical:.2f} standard errors, {worst:.1f} at worst ({verdict})")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
