// The web verifier against the corpus, published vectors, and itself with each check taken out.

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { memoryFiles, parseArguments, parseKey, verifyEvidence, verifySignature } from './verify.mjs';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const bytesOf = (hex) => new Uint8Array(Buffer.from(hex, 'hex'));
const utf8 = (text) => new Uint8Array(Buffer.from(text));

const content = (file) => {
  if (typeof file === 'string') return utf8(file);
  if (file.base64 !== undefined) return new Uint8Array(Buffer.from(file.base64, 'base64'));
  return utf8(file.before + file.unit.repeat(file.times) + file.after);
};

const cases = JSON.parse(readFileSync(at('../vectors/cases.json'), 'utf8')).map((line) => ({
  ...line,
  content: Object.fromEntries(Object.entries(line.files).map(([name, file]) => [name, content(file)])),
}));

/** A case's arguments; its keyring is one of its files. */
const requestOf = (one) => {
  const request = parseArguments(one.arguments);
  return { ...request, keyring: one.content[request.keyring] };
};

const verify = (one, by = verifyEvidence) => by(memoryFiles(one.content), bytesOf(one.key), requestOf(one));

test('every case of the corpus has the same lines and the same exit code as in Rust', async () => {
  assert.ok(cases.length >= 150);
  for (const one of cases) {
    const { lines, exit } = await verify(one);
    assert.deepEqual({ lines, exit }, { lines: one.lines, exit: one.exit }, one.name);
  }
});

test('without any one check some verdict flips', async () => {
  const source = readFileSync(at('./verify.mjs'), 'utf8');
  const switchLine = 'const on = () => true;\n';
  assert.equal(source.split(switchLine).length, 2, 'the one line that tests replace');
  const names = [...new Set([...source.matchAll(/\bon\('(\w+)'\)/g)].map(([, name]) => name))];
  names.push(...[...source.matchAll(/\btext\('(\w+)'/g)].map(([, name]) => name).filter((name) => !names.includes(name)));
  assert.ok(names.length >= 55, names.join(' '));
  const mutable = source.replace(switchLine, 'const on = (name) => name !== globalThis.checkTakenOut;\n');
  const { verifyEvidence: by } = await import(`data:text/javascript;base64,${Buffer.from(mutable).toString('base64')}`);
  const small = cases.filter((one) => one.name !== 'diff: 64 MiB and a byte');
  const idle = [];
  for (const name of names) {
    globalThis.checkTakenOut = name;
    let flips = false;
    for (const one of name === 'DiffSize' ? cases : small) {
      const lines = await verify(one, by).then((found) => found.lines.join(), (error) => error.message);
      flips = lines !== one.lines.join();
      if (flips) break;
    }
    if (!flips) idle.push(name);
  }
  globalThis.checkTakenOut = undefined;
  // The chain's length has its own test below.
  assert.deepEqual(idle, ['ChainSize'], 'checks that no case notices');
});

test('a longer chain than the longest is refused', async () => {
  const source = readFileSync(at('./verify.mjs'), 'utf8').replace('const MAX_CHAIN = 100_000;', 'const MAX_CHAIN = 3;');
  const { verifyEvidence: by } = await import(`data:text/javascript;base64,${Buffer.from(source).toString('base64')}`);
  const one = cases.find(({ name }) => name === 'good');
  assert.deepEqual((await verify(one, by)).lines, ['E_SIZE@3']);
});

test('hostile sizes are refused in little memory', () => {
  const folder = mkdtempSync(join(tmpdir(), 'receipts-'));
  try {
    const file = join(folder, 'run.receipts');
    const hook = 'data:text/javascript,process.on("exit",()=>process.stderr.write(String(process.resourceUsage().maxRSS)))';
    const verified = () => {
      const run = spawnSync(process.execPath, ['--import', hook, at('./verify.mjs'), folder, '--key', cases[0].key], { encoding: 'utf8' });
      assert.equal(run.stdout, 'E_SIZE@0\n', run.stderr);
      assert.ok(Number(run.stderr) < 256 * 1024, `${run.stderr} KiB`);
    };
    writeFileSync(file, '');
    // A hole: it reads as NULs and takes no disk.
    truncateSync(file, 2 ** 30);
    verified();
    writeFileSync(file, `${'['.repeat(200_000)}\t00\n`);
    verified();
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('lines split over chunks at any byte are the same lines', async () => {
  const one = cases.find(({ name }) => name === 'good');
  for (const size of [1, 2, 7, 129, 1000]) {
    const files = memoryFiles(one.content);
    const whole = one.content['run.receipts'];
    const chunks = [];
    for (let n = 0; n < whole.length; n += size) chunks.push(whole.subarray(n, n + size));
    const split = { ...files, chunks: () => chunks };
    assert.deepEqual((await verifyEvidence(split, bytesOf(one.key))).lines, one.lines);
  }
});

test('the command line prints the line and exits with the code', () => {
  const folder = mkdtempSync(join(tmpdir(), 'receipts-'));
  try {
    for (const name of ['good', 'cut after 2', 'two swapped', 'journal: good', 'numbered files']) {
      const one = cases.find((candidate) => candidate.name === name);
      const place = mkdtempSync(join(folder, 'case-'));
      for (const [file, bytes] of Object.entries(one.content)) writeFileSync(join(place, file), bytes);
      const run = spawnSync(process.execPath, [at('./verify.mjs'), place, '--key', one.key, ...one.arguments]);
      assert.equal(run.stdout.toString(), `${one.lines.join('\n')}\n`, name);
      assert.equal(run.status, one.exit, name);
    }
    const [second, lost] = ['keyring: the second key signed', 'keyring: another prev']
      .map((name) => cases.find((candidate) => candidate.name === name));
    for (const one of [second, lost]) {
      const place = mkdtempSync(join(folder, 'case-'));
      for (const [file, bytes] of Object.entries(one.content)) writeFileSync(join(place, file), bytes);
      const ring = join(place, 'signing.keyring');
      const run = spawnSync(process.execPath, [at('./verify.mjs'), join(place, 'run.receipts'), '--key', one.key, '--keyring', ring]);
      assert.equal(run.stdout.toString(), `${one.lines.join('\n')}\n`, one.name);
      assert.equal(run.status, one.exit, one.name);
      const noKey = spawnSync(process.execPath, [at('./verify.mjs'), place, '--key', ring]);
      assert.deepEqual([noKey.stdout.toString(), noKey.status], ['E_KEY@0\n', 1]);
      // A folder in the place of a diff is no diff.
      rmSync(join(place, '0001.diff'));
      mkdirSync(join(place, '0001.diff'));
      const noDiff = spawnSync(process.execPath, [at('./verify.mjs'), place, '--key', second.key, '--keyring', ring]);
      assert.equal(noDiff.stdout.toString(), one === second ? 'E_DIFF_LEN@1\n' : 'E_KEY@0\n');
    }
    const device = spawnSync(process.execPath, [at('./verify.mjs'), '/dev/null', '--key', second.key]);
    assert.deepEqual([device.stdout.toString(), device.status], ['', 2]);
    const usage = spawnSync(process.execPath, [at('./verify.mjs'), folder]);
    assert.equal(usage.status, 2);
    assert.match(usage.stderr.toString(), /a bundle and a key are needed/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('a key is raw bytes, hex digits or an SPKI PEM', () => {
  const raw = bytesOf(cases[0].key);
  const der = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), raw]).toString('base64');
  const pem = `-----BEGIN PUBLIC KEY-----\n${der}\n-----END PUBLIC KEY-----\n`;
  for (const input of [raw, utf8(`${cases[0].key}\n`), utf8(pem)]) assert.deepEqual(parseKey(input), raw);
  for (const input of ['', 'x', cases[0].key.toUpperCase(), pem.replace('MCow', 'MCox')]) {
    assert.equal(parseKey(utf8(input)), undefined, input);
  }
});

// Published edge cases are read where they lie and never copied.
const beside = at('../../../shared');
const shared = process.env.WHIPSTITCH_SHARED ?? (existsSync(beside) ? beside : undefined);
const skip = shared === undefined ? 'no folder of published vectors' : false;

test('every strict verdict is reproduced', { skip }, async () => {
  const lines = readFileSync(join(shared, 'vectors/derived/strict_expected.tsv'), 'utf8').split('\n');
  let count = 0;
  for (const line of lines.filter((candidate) => candidate !== '' && !candidate.startsWith('#'))) {
    const [name, key, signature, message, strict] = line.split('\t');
    assert.equal(await verifySignature(bytesOf(key), bytesOf(message), bytesOf(signature)), strict === '1', name);
    count += 1;
  }
  assert.equal(count, 1077);
});

test('every published signature is accepted', { skip }, async () => {
  const lines = readFileSync(join(shared, 'vectors/rfc8032/sign.input'), 'utf8').trim().split('\n');
  for (const line of lines) {
    const [, key, message, signed] = line.split(':');
    assert.ok(await verifySignature(bytesOf(key), bytesOf(message), bytesOf(signed.slice(0, 128))), key);
  }
  assert.equal(lines.length, 1024);
});
