// Verifies the corpus's exports with npm's @sigstore/verify, refuses each with one byte changed, and counts
// how many it verifies in a second.
//
// usage: receipts/web/peers/install DIR && node receipts/web/peers/verify_sigstore.mjs DIR/node

import assert from 'node:assert/strict';
import { createPublicKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const require = createRequire(join(resolve(process.argv[2] ?? '.'), 'node_modules', 'x'));
const { bundleFromJSON } = require('@sigstore/bundle');
const { Verifier, toSignedEntity, toTrustMaterial } = require('@sigstore/verify');

const file = fileURLToPath(new URL('../../vectors/cases.json', import.meta.url));
const good = JSON.parse(readFileSync(file, 'utf8')).find(({ name }) => name === 'exports: good');
const der = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), Buffer.from(good.key, 'hex')]);
const publicKey = createPublicKey({ key: der, format: 'der', type: 'spki' });

// No certificate, log or clock of sigstore's is asked for: one key, which the caller knows.
const trusted = toTrustMaterial(
  { certificateAuthorities: [], timestampAuthorities: [], tlogs: [], ctlogs: [], mediaType: '' },
  () => ({ publicKey, validFor: () => true }),
);
const verifier = new Verifier(trusted, { tlogThreshold: 0, ctlogThreshold: 0, timestampThreshold: 0 });

const verify = (envelope) => verifier.verify(toSignedEntity(bundleFromJSON({
  mediaType: 'application/vnd.dev.sigstore.bundle+json;version=0.1',
  verificationMaterial: { publicKey: { hint: envelope.signatures[0].keyid }, tlogEntries: [], timestampVerificationData: undefined },
  dsseEnvelope: envelope,
})));

const flipped = (text) => {
  const bytes = Buffer.from(text, 'base64');
  bytes[bytes.length >> 1] ^= 1;
  return bytes.toString('base64');
};

const exports = Object.entries(good.files).filter(([name]) => name.endsWith('.dsse.json')).map(([, text]) => text);
for (const text of exports) {
  const envelope = JSON.parse(text);
  verify(envelope);
  const [signature] = envelope.signatures;
  assert.throws(() => verify({ ...envelope, payload: flipped(envelope.payload) }));
  assert.throws(() => verify({ ...envelope, signatures: [{ ...signature, sig: flipped(signature.sig) }] }));
}
console.log(`${exports.length} exports verified, and refused with one byte changed`);

// From the export's text on, as a caller has it. The first second only warms the engine up.
const perSecond = (seconds) => {
  const start = process.hrtime.bigint();
  let [count, passed] = [0, 0];
  while (passed < seconds) {
    for (let n = 0; n < 25; n += 1) exports.forEach((text) => verify(JSON.parse(text)));
    count += 25 * exports.length;
    passed = Number(process.hrtime.bigint() - start) / 1e9;
  }
  return count / passed;
};
perSecond(1);
console.log(`${Math.round(perSecond(2))} exports per second`);
