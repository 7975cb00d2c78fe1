"""serve_moto.py PORT: moto as an S3 server for the tests that end in _Moto (FLINKSINK_MOTO=http://127.0.0.1:PORT). Needs moto[s3,server] from PyPI.

moto checks a condition in one step and writes in the next, so of several writers that race two may win: s3.Store finds that out, and refuses it. Requests
that are carried out one after the other make moto what the tests want, a second opinion on everything but races."""
import io
import sys
import threading

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, run_simple

moto = DomainDispatcherApplication(create_backend_app)
lock = threading.Lock()


def one_at_a_time(environ, start_response):
    # The body comes first: a client that stops in the middle of it holds up nobody.
    environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))
    with lock:
        return [b"".join(moto(environ, start_response))]


class Quiet(WSGIRequestHandler):
    def log(self, type, message, *args):
        pass


if __name__ == "__main__":
    run_simple("127.0.0.1", int(sys.argv[1]), one_at_a_time, threaded=True, request_handler=Quiet)
