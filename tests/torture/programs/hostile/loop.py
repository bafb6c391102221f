"""An asyncio loop with tasks, a subprocess, a server, a signal handler and an executor."""

import asyncio
import os
import signal
import time

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))


async def echo(reader, writer):
    writer.write(await reader.readline())
    await writer.drain()
    writer.close()


async def main():
    signals = []
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, signals.append, 1)
    server = await asyncio.start_unix_server(echo, "echo.sock")
    end = time.monotonic() + SECONDS
    rounds = 0
    while time.monotonic() < end or rounds < 3:
        rounds += 1
        reader, writer = await asyncio.open_unix_connection("echo.sock")
        writer.write(b"hello\n")
        assert await reader.readline() == b"hello\n"
        writer.close()
        os.kill(os.getpid(), signal.SIGUSR1)
        process = await asyncio.create_subprocess_exec("true")
        assert await process.wait() == 0
        assert await loop.run_in_executor(None, sum, range(1000)) == 499500
        await asyncio.sleep(0.01)
    server.close()
    await server.wait_closed()
    assert len(signals) == rounds, (len(signals), rounds)


asyncio.run(main())
os.unlink("echo.sock")
print("OK")
