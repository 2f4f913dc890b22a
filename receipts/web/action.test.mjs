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
const cases = JSON.parse(readFileSync(at('../vectors/cases.json'), 'utf8'));
const good = cases.find(({ name }) => name === 'good');

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

const RUN = '01929a3e-7c4e-7000-8000-000000000001';
const chainName = digest(`whipstitch run ${RUN}`);
const signed = (record) => `${record}\t${sign(null, Buffer.from(record), privateKey).toString('hex')}\n`;

/** A repository with one commit and a changed file, and a chain of `open` and `seal` for the tree that is staged. */
const world = (folder) => {
  git(folder, 'init', '-q');
  writeFileSync(join(folder, 'file'), 'broken\n');
  git(folder, 'add', 'file');
  git(folder, 'commit', '-q', '-m', 'Break it');
  const base = git(folder, 'rev-parse', 'HEAD');
  writeFileSync(join(folder, 'file'), 'verified\n');
  git(folder, 'add', 'file');
  const lines = good.files['run.receipts'].split('\n').map((line) => line.split('\t')[0].replace('01'.repeat(32), chainName));
  const open = lines[0];
  const seal = lines[3]
    .replace('"count":3', '"count":1').replace('"seq":3', '"seq":1')
    .replace(/"(head|prev)":"[0-9a-f]+"/g, `"$1":"${digest(open)}"`)
    .replace(/"tree_after":"sha1:[0-9a-f]+"/, `"tree_after":"sha1:${git(folder, 'write-tree')}"`);
  const bundle = mkdtempSync(join(folder, 'bundle-'));
  writeFileSync(join(bundle, 'run.receipts'), signed(open) + signed(seal));
  const decide = (...records) => writeFileSync(join(bundle, 'run.authorizations'), records.map(signed).join(''));
  const decisions = cases.find(({ name }) => name === 'authorizations: good').files['run.authorizations']
    .split('\n').map((line) => line.split('\t')[0].replace('01'.repeat(32), chainName));
  const yes = (parent) => decisions[0]
    .replace(/"prev":"[0-9a-f]+"/, `"prev":"${digest(seal)}"`)
    .replace(/"head_commit":"sha1:[0-9a-f]+"/, `"head_commit":"sha1:${parent}"`);
  const push = (commit) => decisions[1]
    .replace(/"prev":"[0-9a-f]+"/, `"prev":"${digest(yes(base))}"`)
    .replace(/"tree":"sha1:[0-9a-f]+"/, `"tree":"sha1:${git(folder, 'rev-parse', `${commit}^{tree}`)}"`)
    .replace(/"commit":"sha1:[0-9a-f]+"/, `"commit":"sha1:${commit}"`);
  return { base, bundle, seal: digest(seal), yes, push, decide };
};

test('only the commit that was verified and authorized passes', () => {
  const folder = mkdtempSync(join(tmpdir(), 'action-'));
  try {
    const { base, bundle, seal, yes, push, decide } = world(folder);
    const verify = (more = {}) => spawnSync(at('../../deploy/verify-action/verify.sh'), [], {
      cwd: folder, encoding: 'utf8', env: { ...process.env, KEY: good.key, BUNDLE: bundle, COMMIT: 'HEAD', ...more },
    });
    const commit = (head, run = RUN) => {
      git(folder, 'reset', '-q', '--soft', base);
      git(folder, 'commit', '-q', '--allow-empty', '-m', `Apply\n\nWhipstitch-Run: ${run}\nWhipstitch-Receipt: sha256:${head}`);
      return git(folder, 'rev-parse', 'HEAD');
    };
    const pushed = commit(seal);
    assert.match(verify().stderr, /nobody authorized/);
    decide(yes('1'.repeat(40)));
    assert.match(verify().stderr, /nobody authorized the patch on top of/);
    for (const records of [[yes(base)], [yes(base), push(pushed)]]) {
      decide(...records);
      const accepted = verify();
      assert.equal(accepted.status, 0, accepted.stderr);
      assert.match(accepted.stdout, /^VALID_CHAIN .* outcome=succeeded\nauthorizations VALID_RECEIPT\ncommit [0-9a-f]{40} is exactly/);
    }
    decide(yes(base), push(base));
    assert.match(verify().stderr, /authorizations E_TREE@1/);
    decide(yes(base), push(pushed).replace(pushed, '2'.repeat(40)));
    assert.match(verify().stderr, /another commit was pushed/);
    decide(yes(base));
    commit('a'.repeat(64));
    assert.match(verify().stderr, /^E_EXPECTED@2/);
    commit(seal, RUN.replace('1', '2'));
    assert.match(verify().stderr, /of another run/);
    writeFileSync(join(folder, 'file'), 'something else\n');
    git(folder, 'add', 'file');
    commit(seal);
    assert.match(verify().stderr, /not the tree that was verified/);
    git(folder, 'commit', '-q', '--allow-empty', '-m', 'No trailers');
    assert.match(verify().stderr, /no Whipstitch trailers/);
    assert.match(verify({ COMMIT: pushed, KEY: 'a'.repeat(64) }).stderr, /^E_KEY/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
