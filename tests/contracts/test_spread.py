"""Threads that work together: order, errors, Ctrl-C, deadlines, and never more than were asked for."""

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from softmargin.core.deadline import OutOfTime, alarm, check_time, deadline
from softmargin.core.errors import IncompatibleError
from softmargin.core.threads import WORTH, interruption, n_around, n_threads, row_shares, spread, threads, wide_blas


def test_results_come_in_the_order_of_the_items():
    with threads(3):
        found = spread(lambda i: (time.sleep(0.002 * (7 - i)), i)[1], range(7))
    assert found == list(range(7))
    assert spread(lambda i: i, []) == []


def test_items_are_done_at_the_same_time_and_by_no_more_threads_than_asked_for():
    both = threading.Barrier(2, timeout=5.0)
    with threads(2):
        names = spread(lambda _: (both.wait(), threading.current_thread().name)[1], range(2))
    assert len(set(names)) == 2
    seen, most, lock = 0, 0, threading.Lock()

    def count(i):
        nonlocal seen, most
        with lock:
            seen, most = seen + 1, max(most, seen + 1)
        time.sleep(0.002)
        with lock:
            seen -= 1
        return n_threads()

    with threads(4):
        inner = spread(lambda i: spread(count, range(5)), range(2))
    assert inner == [[1] * 5] * 2
    assert most <= 4


def test_threads_that_are_left_over_go_to_the_first_items():
    with threads(5):
        assert spread(lambda _: n_threads(), range(3)) == [2, 2, 1]
        assert spread(lambda _: n_threads(), range(9)) == [1] * 9
        assert n_threads() == 5


def test_items_know_how_many_threads_there_are_in_all():
    assert n_around() == 1
    with threads(3):
        with threads(2):  # no more than before
            assert (n_threads(), n_around()) == (2, 3)
        assert spread(lambda _: (n_threads(), n_around()), range(6)) == [(1, 3)] * 6
    assert n_around() == 1


def test_helpers_are_no_more_than_were_called_at_one_time():
    with threads(4):
        spread(lambda _: time.sleep(0.001), range(4))
        before = threading.active_count()
        for _ in range(50):
            spread(lambda _: None, range(4))
    assert threading.active_count() <= before


@pytest.mark.parametrize("ender", [0, 1])
def test_an_item_that_ends_the_program_ends_it_from_any_thread(ender):
    both = threading.Barrier(2, timeout=5.0)

    def work(i):
        is_main = threading.current_thread() is threading.main_thread()
        both.wait()
        if is_main == (ender == 0):
            raise SystemExit(3)

    with threads(2), pytest.raises(SystemExit):
        spread(work, range(2))
    with threads(2):  # the helpers are still there
        assert len(set(spread(lambda _: (both.wait(), threading.current_thread())[1], range(2)))) == 2


def test_without_n_jobs_everything_is_done_here():
    names = spread(lambda _: threading.current_thread(), range(3))
    assert set(names) == {threading.current_thread()}
    with threads(4), threads(None):
        assert n_threads() == 4
    with threads(2), threads(-1):
        assert n_threads() <= 2
    assert n_threads() == 1


@pytest.mark.parametrize("n_jobs", [0, "2", 1.5, True, 10**6, -(10**6), [2]])
def test_what_is_no_number_of_threads_is_refused(n_jobs):
    with pytest.raises(IncompatibleError, match="n_jobs must be None, "), threads(n_jobs):
        pass


def test_negative_numbers_count_from_all_processors(monkeypatch):
    monkeypatch.setattr("softmargin.core.threads._n_processors", lambda: 6)
    for n_jobs, size in ((-1, 6), (-2, 5), (-6, 1), (-9, 1)):
        with threads(n_jobs):
            assert n_threads() == size


def test_the_first_error_is_raised_and_no_further_item_begins():
    begun = []

    def work(i):
        begun.append(i)
        time.sleep(0.01 * (3 - i))
        raise ValueError(i)

    with threads(3), pytest.raises(ValueError, match=r"^0$"):
        spread(work, range(50))
    assert {0} <= set(begun) <= {0, 1, 2}


def test_deadlines_error_states_and_alarms_reach_all_threads():
    def work(i):
        time.sleep(0.02)
        assert np.geterr()["over"] == "raise"
        assert alarm()[0] == 1
        with pytest.raises(OutOfTime):
            check_time()

    with threads(2), deadline(0.005), np.errstate(over="raise"):
        spread(work, range(4))


def test_an_interrupt_ends_what_is_running_and_begins_nothing_else(ctrl_c):
    begun, main, both = [], threading.main_thread(), threading.Barrier(2, timeout=5.0)

    def work(i):
        begun.append(i)
        both.wait()  # else the signal may come before the main thread has an item
        with interruption() as flag:
            if threading.current_thread() is not main:
                signal.pthread_kill(main.ident, signal.SIGINT)
                assert flag.wait(5.0)
                assert spread(lambda j: j, range(4)) == [0, 1, 2, 3]  # no step of a run is cut short
            else:
                for _ in range(500):  # a signal just before a sleep does not shorten it
                    time.sleep(0.01)

    with threads(2), pytest.raises(KeyboardInterrupt):
        spread(work, range(30))
    assert sorted(begun) == [0, 1]


def blas_sizes():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_blas_has_one_thread_but_for_long_calls_and_gets_its_own_back():
    before = blas_sizes()
    with threads(2):
        assert blas_sizes() == {1}
        with wide_blas(1e12):
            assert blas_sizes() == {min(2, size) for size in before}
            assert spread(lambda _: blas_sizes(), range(2)) == [{1}, {1}]
            assert blas_sizes() == {min(2, size) for size in before}
        with wide_blas(1e3), threads(2):
            assert blas_sizes() == {1}
    assert blas_sizes() == before


def test_blas_is_not_widened_among_items_nor_beside_another_fit():
    def widened(_):
        with threads(2), wide_blas(1e12):
            return blas_sizes()

    with threads(4):
        assert spread(widened, range(2)) == [{1}, {1}]
    with threads(2), ThreadPoolExecutor(1) as other:
        assert other.submit(widened, None).result() == {1}
        assert blas_sizes() == {1}


def test_shares_of_rows_are_equal_and_not_too_small():
    with threads(4):
        assert row_shares(10, 2.0 * WORTH) == [slice(0, 2), slice(2, 5), slice(5, 7), slice(7, 10)]
        assert row_shares(10, WORTH / 2) == [slice(0, 5), slice(5, 10)]
        assert row_shares(10, WORTH / 2, worth=3.0 * WORTH) == [slice(0, 10)]
        assert row_shares(3, WORTH) == [slice(0, 3)]
        assert row_shares(0, WORTH) == [slice(0, 0)]
    assert row_shares(10, WORTH) == [slice(0, 10)]
