"""Verifies the corpus's exports with python's securesystemslib, and refuses each with one byte changed.

usage: receipts/web/peers/install DIR && DIR/python/bin/python receipts/web/peers/verify_securesystemslib.py
"""

import base64
import json
import pathlib

from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

CASES = pathlib.Path(__file__).parent / "../../vectors/cases.json"


def envelope(text):
    """The envelope, in the dictionary form that the library reads."""
    data = json.loads(text)
    return Envelope.from_dict(data)


def refuses(key, text):
    try:
        envelope(text).verify([key], 1)
    except VerificationError:
        return True
    return False


def main():
    case = next(c for c in json.loads(CASES.read_text()) if c["name"] == "exports: good")
    exports = {n: t for n, t in case["files"].items() if n.endswith(".dsse.json")}
    key_id = json.loads(exports["0000.dsse.json"])["signatures"][0]["keyid"]
    key = SSlibKey(key_id, "ed25519", "ed25519", {"public": case["key"]})
    for name, text in exports.items():
        envelope(text).verify([key], 1)
        data = json.loads(text)
        payload = bytearray(base64.b64decode(data["payload"]))
        payload[len(payload) // 2] ^= 1
        changed = {**data, "payload": base64.b64encode(payload).decode()}
        assert refuses(key, json.dumps(changed)), name
        signature = bytearray(base64.b64decode(data["signatures"][0]["sig"]))
        signature[0] ^= 1
        changed = {**data, "signatures": [{"keyid": key_id, "sig": base64.b64encode(signature).decode()}]}
        assert refuses(key, json.dumps(changed)), name
    print(f"{len(exports)} exports verified, and refused with one byte changed")


main()
