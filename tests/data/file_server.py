#!/usr/bin/env python3
"""An HTTP server for the tests of remote files: file_server.py DIRECTORY.

Prints its port. It serves the files of DIRECTORY with ETag, Range and If-Range, and adds a line for each
request to DIRECTORY/requests.log. Paths:

  /NAME          the file
  /cut/NAME      the connection ends after half of what is asked for, on the first request
  /gone/NAME     a redirection to /NAME
  /busy/NAME     503
  /bucket/NAME   the file, if the request has a valid AWS Signature Version 4 of the key KEY with SECRET
"""
import hashlib
import hmac
import http.server
import pathlib
import sys
import urllib.parse

ROOT = pathlib.Path(sys.argv[1])
cut = set()


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def signature_error(handler):
    """Returns why the signature of a request is wrong, or None."""
    header = handler.headers.get("Authorization", "")
    scheme, _, rest = header.partition(" ")
    if scheme != "AWS4-HMAC-SHA256":
        return "no signature"
    fields = dict(part.strip().split("=", 1) for part in rest.split(","))
    key, date, region, service, end = fields["Credential"].split("/")
    signed = fields["SignedHeaders"]
    if (key, region, service, end) != ("KEY", "eu-test-1", "s3", "aws4_request"):
        return f"credential {fields['Credential']}"
    if "x-amz-security-token" not in signed or handler.headers["x-amz-security-token"] != "TOKEN":
        return "the token is not signed"
    headers = "".join(f"{name}:{handler.headers[name].strip()}\n" for name in signed.split(";"))
    request = "\n".join([handler.command, handler.path, "", headers, signed,
                         handler.headers["x-amz-content-sha256"]])
    text = "\n".join(["AWS4-HMAC-SHA256", handler.headers["x-amz-date"], f"{date}/{region}/s3/aws4_request",
                      hashlib.sha256(request.encode()).hexdigest()])
    secret = b"AWS4SECRET"
    for part in (date, region, "s3", "aws4_request"):
        secret = sign(secret, part)
    if sign(secret, text).hex() != fields["Signature"]:
        return "SignatureDoesNotMatch"
    return None


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def answer(self, code, body, headers=()):
        self.send_response(code)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        with open(ROOT / "requests.log", "a") as log:
            log.write(f"{self.path} {self.headers.get('Range', '-')}\n")
        parts = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).strip("/").split("/")
        mode = parts[0] if len(parts) > 1 else ""
        file = ROOT / parts[-1]
        if mode == "gone":
            return self.answer(302, b"", [("Location", f"/{parts[-1]}")])
        if mode == "busy":
            return self.answer(503, b"<Error><Message>Slow down</Message></Error>")
        if mode == "bucket":
            error = signature_error(self)
            if error:
                return self.answer(403, f"<Error><Message>{error}</Message></Error>".encode())
        if not file.is_file():
            return self.answer(404, b"<html>no such file</html>")
        body = file.read_bytes()
        etag = '"' + hashlib.md5(body).hexdigest() + '"'
        code, headers = 200, [("ETag", etag)]
        asked = self.headers.get("Range")
        if asked and self.headers.get("If-Range", etag) == etag:
            first = int(asked.removeprefix("bytes=").removesuffix("-"))
            code = 206
            headers.append(("Content-Range", f"bytes {first}-{len(body) - 1}/{len(body)}"))
            body = body[first:]
        if mode == "cut" and parts[-1] not in cut:
            cut.add(parts[-1])
            self.send_response(code)
            for name, value in headers + [("Content-Length", str(len(body)))]:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
            return None
        return self.answer(code, body, headers)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
