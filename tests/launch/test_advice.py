"""What PBS answers, by its own texts, and what is made of it."""

from __future__ import annotations

import pytest

from launch import advice


@pytest.mark.parametrize(
    ("code", "message", "remedy"),
    [
        (170, "qsub: Unknown queue", "no such queue"),
        (187, "qsub: Unknown resource Resource_List.nosuchres", "file systems are separated by colons"),
        (187, "qsub: Unknown resource: ngpus", "nodes are asked for whole"),
        (187, "qsub: Unknown resource Resource_List.flare", "separated by colons: --filesystems home:flare"),
        (4, 'qsub: Resource invalid in "select" specification: place', "stand in lines of their own"),
        (188, "qsub: Job violates queue and/or server resource limits", "nodes or the walltime are outside"),
        (166, "qsub: Illegal attribute or resource value Resource_List.walltime", "cannot read the value"),
        (6, "qsub: Cannot be used with select or place: nodes", "older form of select="),
        (38, "qsub: would exceed queue generic's per-user limit", "as many jobs in this queue as it allows"),
        (174, "qsub: Access to queue is denied", "submit to prod"),
        (32, "qsub: Account_Name is required to be set.", "--project"),
        (32, "qsub: Resource: filesystems is required to be set.", "--filesystems home:flare"),
        (1, "qsub: script contains cr, lf", "Unix line ends"),
        (2, "qsub: illegal -N value\nusage: qsub", "no space and no '/'"),
        (2, "qsub: illegal -J value\nusage: qsub", "--array FIRST-LAST"),
        (2, "qsub: illegal -k value\nusage: qsub", "only -k doe"),
        (2, "qsub: Job name is too long", "shorten --name"),
        (154, "qsub: Error (15002) submitting job", "no such -W attribute"),
        (3, "qsub: Array job exceeds server or queue size limit", "make it smaller"),
        (1, "qsub: cannot send environment with the job", "is not set"),
        (162, "Connection refused\nqsub: cannot connect to server vm (errno=15010)", "does not answer"),
        (160, "Unknown Host.\nqsub: cannot connect to server vm (errno=15008)", "no such name"),
        (175, "qsub: Bad UID for job execution", "submit as yourself"),
        (159, "qsub: Unauthorized Request", "does not let you"),
        (1, "No active allocation found for project X", "no hours left"),
        (188, "in words nobody has seen", "nodes or the walltime are outside"),
    ],
)
def test_each_refusal_has_its_remedy(code: int, message: str, remedy: str) -> None:
    said = advice.refused(message, code)
    assert said is not None
    assert remedy in said


def test_of_an_unknown_refusal_nothing_is_claimed() -> None:
    assert advice.refused("qsub: the moon is in the wrong house", 99) is None


STATUS = """Job Id: 1.vm
    Job_Name = job
    job_state = R
    exec_host = x1/0*208+x2/0*208
    Variable_List = PBS_O_HOME=/home/u,PBS_O_LANG=C,PBS_O_WORKDIR=/lus/flare/pr
\toject = x/run
    comment = Job run at Tue Dec 01 at 09:00 on (x1:ncpus=208)+(x2:ncpus=208)

Job Id: 48[2].vm
    job_state = F
    Exit_status = 7
"""


def test_qstats_answer_is_read_with_its_folded_lines() -> None:
    found = advice.jobs(STATUS)
    assert list(found) == ["1.vm", "48[2].vm"]
    assert found["1.vm"]["job_state"] == "R"
    assert found["1.vm"]["Variable_List"].endswith("PBS_O_WORKDIR=/lus/flare/project = x/run")
    assert found["48[2].vm"]["Exit_status"] == "7"
    assert advice.jobs("") == {}


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"job_state": "Q"}, "waits in the queue"),
        ({"job_state": "Q", "comment": "Not Running: No available resources"}, "waits in the queue"),
        (
            {"job_state": "Q", "comment": "Can Never Run: Not enough total nodes available"},
            "waits: Can Never Run: Not enough total nodes available. Unless that is a file system that",
        ),
        (
            {"job_state": "Q", "run_count": "1", "comment": "x1 down"},
            "is in the queue again, after its node or PBS itself went down: x1 down",
        ),
        (
            {"job_state": "H", "comment": "job held, too many failed attempts to run"},
            "is held: job held, too many failed attempts to run. A node is bad, or the output cannot be",
        ),
        ({"job_state": "H", "depend": "afterok:1.vm@vm"}, "waits for another job (afterok:1.vm@vm)"),
        ({"job_state": "H"}, "is held; `qrls` releases it"),
        ({"job_state": "R", "exec_host": "x1/0*208"}, "runs on x1"),
        ({"job_state": "R", "exec_host": "x1/0*208+x2/0*208+x3/0*208"}, "runs on x1 and 2 more"),
        ({"job_state": "B"}, "runs"),
        ({"job_state": "E"}, "ends"),
        ({"job_state": "S"}, "is suspended"),
        ({"job_state": "?"}, "is in state ?"),
        ({}, "is in state unknown"),
    ],
)
def test_a_state_is_said_in_words(facts: dict[str, str], said: str) -> None:
    assert advice.state(facts).startswith(said)


@pytest.mark.parametrize(
    ("exit_status", "status", "said"),
    [
        ("0", 0, "ended well"),
        ("3", 3, "ended with status 3"),
        ("75", 75, "stopped in time, with more to do"),
        ("127", 127, "found no such command"),
        ("-29", 1, "was ended by PBS at the end of its walltime"),
        ("-3", 1, "could not be run by PBS (Exit_status -3): because"),
        ("271", 143, "was deleted by qdel, or ended by SIGTERM (Exit_status 271)"),
        ("143", 143, "was deleted by qdel, or ended by SIGTERM (Exit_status 143)"),
        ("265", 137, "was deleted by `qdel -W force`, or killed (Exit_status 265)"),
        ("137", 137, "was deleted by `qdel -W force`, or killed (Exit_status 137)"),
        ("266", 138, "was ended by SIGUSR1"),
        ("258", 130, "was ended by SIGINT"),
        ("200", 200, "ended with status 200"),
        (None, 1, "was deleted before it ran"),
    ],
)
def test_an_end_is_said_in_words(exit_status: str | None, status: int, said: str) -> None:
    facts = {"comment": "because"} | ({"Exit_status": exit_status} if exit_status else {})
    code, words = advice.ended(facts)
    assert (code, words.startswith(said)) == (status, True)


def test_the_node_that_has_failed_is_the_one_that_mpiexec_blames() -> None:
    output = """step 3
x4100c0s0b0n0: rank 7 died from signal 11
ping failed on x4304c1s6b0n0: No reply from x4307c2s6b0n0.hostmgmt2307.cm.aurora.alcf.anl.gov after 87s
x4100c0s0b0n1.hsn: shepherd died from signal 9
"""
    assert advice.lost_node(output) == "x4307c2s6b0n0"
    assert advice.lost_node("x4100c0s0b0n0: rank 7 died from signal 15") is None
