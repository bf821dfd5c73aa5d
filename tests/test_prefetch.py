"""Reading and working ahead in threads."""

import threading
import time

import pytest

from medcoder.prefetch import in_parallel, prefetch


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = set(threading.enumerate())
    yield
    left = set(threading.enumerate()) - before
    assert not left, left


def wait_until(true):
    for _ in range(500):
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("it never came true")


@pytest.mark.parametrize("depth", [1, 2, 50])
def test_the_same_items_in_the_same_order(depth):
    assert list(prefetch(range(20), depth)) == list(range(20))
    assert list(prefetch([None, (), None], depth)) == [None, (), None]
    assert list(prefetch([], depth)) == []


def test_it_reads_ahead_but_no_further_than_asked():
    taken = []

    def items():
        for number in range(100):
            taken.append(number)
            yield number

    stream = prefetch(items(), depth=3)
    assert next(stream) == 0
    wait_until(lambda: len(taken) == 5)  # one given out, three waiting, one in hand
    time.sleep(0.05)
    assert len(taken) == 5
    stream.close()


def test_nothing_is_read_before_the_first_item_is_asked_for():
    taken = []
    stream = prefetch(map(taken.append, range(3)))
    time.sleep(0.02)
    assert taken == []
    stream.close()


def test_an_error_comes_after_the_items_before_it():
    def items():
        yield 1
        yield 2
        raise ValueError("the third is broken")

    got = []
    with pytest.raises(ValueError, match="the third is broken"):
        got.extend(prefetch(items()))
    stream = prefetch(items())
    assert [next(stream), next(stream)] == [1, 2]
    with pytest.raises(ValueError, match="the third is broken"):
        next(stream)
    with pytest.raises(StopIteration):
        next(stream)


def test_an_interrupt_in_the_thread_is_raised_here():
    def items():
        yield 1
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(prefetch(items()))


def test_closing_early_stops_the_thread():
    def items():
        number = 0
        while True:
            yield number
            number += 1

    stream = prefetch(items())
    assert next(stream) == 0
    assert [thread.name for thread in threading.enumerate()].count("read-ahead") == 1
    stream.close()
    assert [thread.name for thread in threading.enumerate()].count("read-ahead") == 0


def test_an_error_of_the_caller_stops_the_thread():
    with pytest.raises(RuntimeError, match="busy"):
        for _ in prefetch(iter(int, 1)):
            raise RuntimeError("busy")
    wait_until(lambda: all(t.name != "read-ahead" for t in threading.enumerate()))


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_results_come_in_order(workers):
    def slow_first(number):
        time.sleep(0.02 if number % 3 == 0 else 0)
        return number * number

    assert list(in_parallel(slow_first, range(10), workers)) == [n * n for n in range(10)]
    assert list(in_parallel(slow_first, [], workers)) == []


def test_work_is_done_side_by_side():
    both = threading.Barrier(2, timeout=5)
    assert list(in_parallel(lambda number: both.wait() * 0 + number, [1, 2], 2)) == [1, 2]


def test_an_error_in_the_work_or_in_the_items():
    def work(number):
        if number == 3:
            raise ValueError("three")
        return number

    results = in_parallel(work, range(10))
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(results)

    def items():
        yield 1
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        list(in_parallel(work, items()))


def test_closing_early_stops_the_workers():
    results = in_parallel(lambda number: number, iter(int, 1))
    assert next(results) == 0
    results.close()


def test_one_inside_the_other():
    stream = in_parallel(lambda number: number + 1, prefetch(iter(int, 1), depth=1))
    assert next(stream) == 1
    stream.close()
    del stream
