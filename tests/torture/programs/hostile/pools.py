"""multiprocessing in its three ways, each with shared memory, a lock and a queue."""

import multiprocessing
import os
import time
from multiprocessing import shared_memory

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))


def fill(name, number, lock, queue):
    block = shared_memory.SharedMemory(name)
    with lock:
        block.buf[number * 1000 : (number + 1) * 1000] = bytes([number]) * 1000
    block.close()
    queue.put(number)
    time.sleep(SECONDS / 4)


def square(number):
    return number * number


def one(way):
    context = multiprocessing.get_context(way)
    block = shared_memory.SharedMemory(create=True, size=4000)
    lock, queue = context.Lock(), context.Queue()
    workers = [context.Process(target=fill, args=(block.name, n, lock, queue)) for n in range(4)]
    for worker in workers:
        worker.start()
    told = sorted(queue.get(timeout=100) for _ in workers)
    for worker in workers:
        worker.join()
    data = bytes(block.buf[:4000])
    block.close()
    block.unlink()
    assert data == b"".join(bytes([n]) * 1000 for n in range(4))
    with context.Pool(2) as pool:
        squares = pool.map(square, range(20))
    return way, told, sum(squares), [worker.exitcode for worker in workers]


if __name__ == "__main__":
    print("OK", *map(one, ("fork", "spawn", "forkserver")))
