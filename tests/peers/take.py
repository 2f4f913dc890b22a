"""Takes webhooks with PyPI's gidgethub as its users do, and signs the same bodies as gidgethub expects it.

usage: python take.py SECRET < lines of "event file"; prints one signature per line
"""

import hashlib
import hmac
import json
import sys

from gidgethub import sansio

secret = sys.argv[1]
for line in sys.stdin:
    event, name = line.rstrip("\n").split(" ", 1)
    with open(name, "rb") as file:
        body = file.read()
    signature = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "content-type": "application/json",
        "x-github-event": event,
        "x-github-delivery": "1",
        "x-hub-signature-256": signature,
    }
    taken = sansio.Event.from_http(headers, body, secret=secret)
    if (taken.event, taken.data) != (event, json.loads(body)):
        raise SystemExit(f"{name} was taken as something else")
    print(signature)
