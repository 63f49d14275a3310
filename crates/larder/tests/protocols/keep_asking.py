"""Sends requests on kept connections, as a client of Python's library does, until its input ends.

Arguments: the address, the port, and the number of connections. Prints each request that got no response or a
wrong one, and then how many got theirs. The exit code is 0 when all did.
"""

import http.client
import sys
import threading

address, port, connections = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
stop = threading.Event()
answered, failed = [], []


def keep_asking():
    connection = http.client.HTTPConnection(address, port, timeout=30)
    count = 0
    while not stop.wait(0.01):
        count += 1
        try:
            connection.request("GET", f"/page{count % 7}")
            response = connection.getresponse()
            response.read()
            (answered if response.status == 200 else failed).append(response.status)
            if response.will_close:
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            failed.append(repr(error))
            connection.close()


threads = [threading.Thread(target=keep_asking) for _ in range(connections)]
for thread in threads:
    thread.start()
sys.stdin.read()
stop.set()
for thread in threads:
    thread.join()
print(*failed, f"{len(answered)} answered", sep="\n")
sys.exit(1 if failed or not answered else 0)
