"""Bring out the vessels in a photograph of a human retina: blur, edges, contrast.

The photograph (by Mikael Häggström, public domain, part of scikit-image) is cut into strips of rows. Each
goes to a tile once, with a few rows more above and below, and stays there. What the contrast needs to know of
the whole photograph are its extremes and its histogram, and those are small.

    mpiexec -n 12 python -m sched run examples/photograph.py --zoom 4 --output vessels.png
"""

import argparse
import sys
import time

import numpy as np
import skimage.data
import skimage.exposure
import skimage.io
from scipy import ndimage

import sched

SIGMA, RADIUS = 2.0, 8  # of the blur, in pixels
MARGIN = RADIUS + 1  # rows above and below that an edge depends on
BINS = 256
GAUSS = np.exp(-((np.arange(-RADIUS, RADIUS + 1) / SIGMA) ** 2) / 2)
GAUSS /= GAUSS.sum()


def correlate(image, weights):
    """Correlate along the first axis, and lose the rows for which there are too few neighbours."""
    rows = len(image) - len(weights) + 1
    return sum(float(weight) * image[k : k + rows] for k, weight in enumerate(weights))


def filtered(image, down, across):
    return correlate(correlate(image, down).T, across).T


def edges(strip):
    """Return the magnitude of the Sobel gradient of the blurred strip."""
    image = filtered(sched.xp.asarray(strip, dtype=float), GAUSS, GAUSS)
    slope, mean = (-1, 0, 1), (1, 2, 1)
    return sched.xp.hypot(filtered(image, slope, mean), filtered(image, mean, slope))


def extremes(strip):
    return float(strip.min()), float(strip.max()), sched.current().tile


def histogram(strip, low, high):
    return sched.xp.histogram(strip, bins=BINS, range=(low, high))[0]


def equalise(strip, low, high, share):
    """Give each pixel the share of pixels that are darker, so there is contrast where many are alike."""
    xp = sched.xp
    middles = low + (high - low) * (xp.arange(BINS) + 0.5) / BINS
    return xp.interp(strip.reshape(-1), middles, xp.asarray(share)).reshape(strip.shape)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--zoom", type=int, default=1, help="enlarge the photograph so many times (1)")
    parser.add_argument("--output", metavar="PNG", help="write the result to this file")
    options = parser.parse_args()
    green = skimage.data.retina()[..., 1]  # where vessels are darkest
    photograph = green.repeat(options.zoom, axis=0).repeat(options.zoom, axis=1)
    height, width = photograph.shape

    with sched.Scheduler() as s:
        start = time.perf_counter()
        padded = np.pad(photograph, MARGIN, mode="symmetric")
        count = 2 * s.tiles  # a tile that is done early takes another
        bounds = [height * i // count for i in range(count + 1)]
        strips = [padded[bounds[i] : bounds[i + 1] + 2 * MARGIN] for i in range(count)]
        found = s.submit_many(edges, strips)
        lows, highs, used = zip(*s.gather(s.submit_many(extremes, found)), strict=True)
        low, high = min(lows), max(highs)
        counts = s.gather([s.submit(histogram, strip, low, high) for strip in found], to="host", stack=True)
        share = counts.sum(axis=0).cumsum() / photograph.size
        equalised = [s.submit(equalise, strip, low, high, share) for strip in found]
        result = np.concatenate(s.gather(equalised, to="host"))
        seconds = time.perf_counter() - start

    start = time.perf_counter()
    blurred = ndimage.gaussian_filter(photograph.astype(float), SIGMA, radius=RADIUS)
    gradient = np.hypot(ndimage.sobel(blurred, 0), ndimage.sobel(blurred, 1))
    expected = skimage.exposure.equalize_hist(gradient, BINS)
    alone = time.perf_counter() - start

    rate = photograph.size / seconds / 1e6
    print(f"{width} x {height} pixels: {seconds:.2f} s, {rate:.1f} megapixels/s (SciPy: {alone:.2f} s)")
    print(f"{len(set(used))} of {s.tiles} tiles took part")
    error = np.abs(result - expected).max()
    right = error < 1e-5  # a pixel that rounding puts into the next bin is worth 1 / pixels
    print(f"largest difference to SciPy and scikit-image: {error:.1e} ({'right' if right else 'WRONG'})")
    if options.output:
        skimage.io.imsave(options.output, (255 * result).round().astype(np.uint8))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
