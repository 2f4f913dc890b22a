// Other people's tools accept the corpus's exports, and refuse each with one byte changed.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { skipWithout } from './promised.mjs';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
// Where `peers/install` put the packages: `python/` and `node/`.
const peers = process.env.WHIPSTITCH_PEERS ?? '';
const said = '4 exports verified, and refused with one byte changed\n';

const python = [join(peers, 'python/bin/python'), 'python3']
  .find((name) => spawnSync(name, ['-c', 'import securesystemslib.dsse']).status === 0);

test('securesystemslib accepts the exports', { skip: skipWithout('securesystemslib', python !== undefined) }, () => {
  const run = spawnSync(python, [at('./peers/verify_securesystemslib.py')], { encoding: 'utf8' });
  assert.equal(run.stdout, said, run.stderr);
});

const node = join(peers, 'node');
const sigstore = existsSync(join(node, 'node_modules/@sigstore/verify'));

test('@sigstore/verify accepts the exports', { skip: skipWithout('@sigstore/verify', sigstore) }, () => {
  const run = spawnSync(process.execPath, [at('./peers/verify_sigstore.mjs'), node], { encoding: 'utf8' });
  assert.equal(run.status, 0, run.stderr);
  assert.ok(run.stdout.startsWith(said), run.stdout);
});
