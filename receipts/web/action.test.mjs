// The verify action accepts the commit that its receipts are about, and no other.

import assert from 'node:assert/strict';
import { createHash, createPrivateKey, sign } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const good = JSON.parse(readFileSync(at('../vectors/cases.json'), 'utf8')).find(({ name }) => name === 'good');

// The corpus's own seed, so that a seal can be made for a tree that git knows.
const der = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), Buffer.alloc(32, 7)]);
const privateKey = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
const digest = (text) => createHash('sha256').update(text).digest('hex');

const git = (folder, ...words) => {
  const run = spawnSync('git', [
    '-C', folder, '-c', 'user.name=t', '-c', 'user.email=t@example.org', '-c', 'commit.gpgsign=false', ...words,
  ], { encoding: 'utf8' });
  assert.equal(run.status, 0, run.stderr);
  return run.stdout.trim();
};

/** A repository, and a chain of `open` and `seal` for the tree that it has staged. */
const world = (folder) => {
  git(folder, 'init', '-q');
  writeFileSync(join(folder, 'file'), 'verified\n');
  git(folder, 'add', 'file');
  const lines = good.files['run.receipts'].split('\n');
  const open = lines[0].split('\t')[0];
  const seal = lines[3].split('\t')[0]
    .replace('"count":3', '"count":1').replace('"seq":3', '"seq":1')
    .replace(/"(head|prev)":"[0-9a-f]+"/g, `"$1":"${digest(open)}"`)
    .replace(/"tree_after":"sha1:[0-9a-f]+"/, `"tree_after":"sha1:${git(folder, 'write-tree')}"`);
  const signed = `${seal}\t${sign(null, Buffer.from(seal), privateKey).toString('hex')}`;
  const bundle = mkdtempSync(join(folder, 'bundle-'));
  writeFileSync(join(bundle, 'run.receipts'), `${lines[0]}\n${signed}\n`);
  return { bundle, seal: digest(seal) };
};

test('only the commit whose tree was verified passes', () => {
  const folder = mkdtempSync(join(tmpdir(), 'action-'));
  try {
    const { bundle, seal } = world(folder);
    const verify = () => spawnSync(at('../../deploy/verify-action/verify.sh'), [], {
      cwd: folder, encoding: 'utf8', env: { ...process.env, KEY: good.key, BUNDLE: bundle, COMMIT: 'HEAD' },
    });
    const commit = (head) => git(folder, 'commit', '-q', '--allow-empty', '-m',
      `Apply\n\nWhipstitch-Run: run\nWhipstitch-Receipt: sha256:${head}`);
    commit(seal);
    const accepted = verify();
    assert.equal(accepted.status, 0, accepted.stderr);
    assert.match(accepted.stdout, /^VALID_CHAIN .* outcome=succeeded\ncommit HEAD holds exactly the verified tree/);
    commit('a'.repeat(64));
    assert.match(verify().stderr, /^E_EXPECTED@2/);
    writeFileSync(join(folder, 'file'), 'something else\n');
    git(folder, 'add', 'file');
    commit(seal);
    assert.match(verify().stderr, /not the tree that was verified/);
    git(folder, 'commit', '-q', '--allow-empty', '-m', 'No trailers');
    assert.match(verify().stderr, /no Whipstitch trailers/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
