"""The few calls of Kubernetes' API server that a launch needs, over HTTP on this machine."""

import contextlib
import http.server
import json
import re
import threading
import urllib.parse

import jobset_schemas
import yaml

_JOBSETS = re.compile(r"/apis/jobset.x-k8s.io/v1alpha2/namespaces/([\w-]+)/jobsets(?:/([\w-]+))?")
_PODS = re.compile(r"/api/v1/namespaces/([\w-]+)/pods(?:/([\w-]+)/log)?")


class Server:
    """jobsets: {(namespace, name): JobSet}; pods: {(namespace, name): (labels, time, log)}.

    stays: names of JobSets whose pods are still there for that many calls after their deletion.
    calls: "METHOD path", in order.
    """

    def __init__(self, kubeconfig):
        self.jobsets, self.pods, self.stays = {}, {}, {}
        self.calls, self.policies, self.refuses = [], [], None
        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))
        self._thread.start()
        port = self._http.server_address[1]
        context = {"cluster": "here", "user": "me", "namespace": "mine"}
        kubeconfig.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "here",
                    "contexts": [{"name": "here", "context": context}],
                    "clusters": [
                        {"name": "here", "cluster": {"server": f"http://127.0.0.1:{port}"}}
                    ],
                    "users": [{"name": "me", "user": {"token": "secret"}}],
                }
            )
        )

    def close(self):
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def state(self, name, *, ready=0, **conditions):
        """Sets the status of a JobSet as its controller would."""
        [key] = [key for key in self.jobsets if key[1] == name]
        true = [{"type": kind, "status": "True"} for kind, holds in conditions.items() if holds]
        status = {"conditions": true, "replicatedJobsStatus": [{"name": "train", "ready": ready}]}
        self.jobsets[key]["status"] = status

    def answer(self, method, path, query, body):
        """(status, object or text)."""
        if self.refuses:
            return self.refuses
        if found := _JOBSETS.fullmatch(path):
            return self._jobsets(method, *found.groups(), query, body)
        if found := _PODS.fullmatch(path):
            return self._pods(*found.groups(), query)
        return 404, "404 page not found"

    def _jobsets(self, method, namespace, name, query, body):
        if method == "POST":
            jobset_schemas.check(body)
            key = (namespace, body["metadata"]["name"])
            if body["metadata"].get("namespace", namespace) != namespace:
                return 400, _status(400, "the namespace of the object does not match")
            if key in self.jobsets:
                return 409, _status(409, f'jobsets "{key[1]}" already exists')
            self.jobsets[key] = body
            return 201, body
        if name is None:
            key, _, value = query["labelSelector"].partition("=")
            items = [
                item
                for (there, _), item in self.jobsets.items()
                if there == namespace and item["metadata"]["labels"].get(key) == value
            ]
            return 200, {"items": items}
        if (namespace, name) not in self.jobsets:
            return 404, _status(404, f'jobsets "{name}" not found')
        item = self.jobsets[namespace, name]
        if method == "DELETE":
            self.policies.append(query.get("propagationPolicy"))
            item["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        if "deletionTimestamp" in item["metadata"]:
            self.stays[name] = self.stays.get(name, 0) - 1
            if self.stays[name] < 0:
                del self.jobsets[namespace, name]
        return 200, item

    def _pods(self, namespace, name, query):
        if name:
            text = self.pods[namespace, name][2]
            return (400, _status(400, "ContainerCreating")) if text is None else (200, text)
        wanted = dict(pair.split("=") for pair in query["labelSelector"].split(","))
        items = [
            {"metadata": {"name": pod, "labels": labels, "creationTimestamp": created}}
            for (there, pod), (labels, created, _) in self.pods.items()
            if there == namespace and wanted.items() <= labels.items()
        ]
        return 200, {"items": items}

    def _handler(server):
        class Handler(http.server.BaseHTTPRequestHandler):
            def _serve(self):
                path, _, query = self.path.partition("?")
                server.calls.append(f"{self.command} {path}")
                length = int(self.headers.get("Content-Length", 0))
                body = json.loads(self.rfile.read(length) or "null")
                assert self.headers["Authorization"] == "Bearer secret"
                query = dict(urllib.parse.parse_qsl(query))
                status, out = server.answer(self.command, path, query, body)
                data = out.encode() if isinstance(out, str) else json.dumps(out).encode()
                self.send_response(status)
                kind = "text/plain" if isinstance(out, str) else "application/json"
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = _serve

            def log_message(self, *args):
                pass

        return Handler


def _status(code, message):
    return {"kind": "Status", "status": "Failure", "message": message, "code": code}


@contextlib.contextmanager
def serve(kubeconfig):
    """An API server while the context lasts; `kubeconfig` is the file that leads to it."""
    server = Server(kubeconfig)
    try:
        yield server
    finally:
        server.close()
