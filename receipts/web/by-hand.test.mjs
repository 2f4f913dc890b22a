// The commands that docs/RECEIPTS.md gives for verifying by hand accept what is good and refuse what is not.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { skipWithout } from './promised.mjs';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const cases = JSON.parse(readFileSync(at('../vectors/cases.json'), 'utf8'));
const skip = ['openssl', 'sha256sum']
  .map((tool) => skipWithout(tool, spawnSync(tool, [tool === 'openssl' ? 'version' : '--version']).error === undefined))
  .find((why) => why !== false) ?? false;

const run = (name) => {
  const folder = mkdtempSync(join(tmpdir(), 'by-hand-'));
  try {
    const one = cases.find((candidate) => candidate.name === name);
    for (const [file, text] of Object.entries(one.files)) writeFileSync(join(folder, file), text);
    const der = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), Buffer.from(one.key, 'hex')]);
    writeFileSync(join(folder, 'key.pem'), `-----BEGIN PUBLIC KEY-----\n${der.toString('base64')}\n-----END PUBLIC KEY-----\n`);
    return spawnSync(at('./by-hand.sh'), [folder, join(folder, 'key.pem')], { encoding: 'utf8' });
  } finally {
    rmSync(folder, { recursive: true });
  }
};

test('openssl and sha256sum accept a good chain', { skip }, () => {
  const { status, stdout, stderr } = run('good');
  assert.equal(status, 0, stderr);
  assert.match(stdout, /^4 receipts, signed and linked; head [0-9a-f]{64}\n$/);
});

test('openssl and sha256sum refuse what was changed', { skip }, () => {
  for (const [name, status] of [
    ['cut after 2', 3], ['two swapped', 1], ['the middle dropped', 1], ['diff: a bit flipped', 1],
    ['signature: a bit of receipt 2', 1], ['altered: reason of apply', 1], ['forked chains joined', 1],
  ]) {
    assert.equal(run(name).status, status, name);
  }
});
