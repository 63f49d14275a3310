"""One worker with threads, so that sessions and notes in memory are the same for all requests."""
import os

bind = "127.0.0.1:" + os.environ["PORT"]
workers = 1
threads = 24
keepalive = 75
forwarded_allow_ips = "127.0.0.1"
wsgi_app = "shop:application"
control_socket_disable = True
