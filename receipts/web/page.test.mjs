// The page is verify.mjs and its frame, and in a real browser without a network it says what Node says.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { page } from './inline.mjs';
import { skipWithout } from './promised.mjs';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const cases = JSON.parse(readFileSync(at('../vectors/cases.json'), 'utf8'));

test('verify.html is what inline.mjs makes', () => {
  assert.equal(readFileSync(at('./verify.html'), 'utf8'), page(), 'stale: run node receipts/web/inline.mjs');
});

const browser = ['chromium', 'chromium-browser', 'google-chrome']
  .find((name) => spawnSync(name, ['--version']).status === 0);
const skip = skipWithout('chromium', browser !== undefined);
// A namespace of its own has no network at all; where there is none to be had, every address goes to a dead proxy.
const unshared = spawnSync('unshare', ['-rn', 'true']).status === 0 ? ['unshare', '-rn'] : [];

/** What the page shows after a person typed the key and chose the files, as the browser's own DOM. */
const shown = (one, folder, options = [], after = '') => {
  const files = JSON.stringify(one.files);
  // The page is driven from inside, through the same two inputs that a person uses.
  const driver = `<script type="module">
    const files = ${files.replaceAll('<', '\\u003c')};
    const chosen = new DataTransfer();
    for (const [name, text] of Object.entries(files)) chosen.items.add(new File([text], name));
    document.getElementById('key').value = '${one.key}';
    document.getElementById('files').files = chosen.files;
    document.getElementById('files').dispatchEvent(new Event('change'));
    ${after}
  </script></body>`;
  const file = join(folder, 'verify.html');
  writeFileSync(file, readFileSync(at('./verify.html'), 'utf8').replace('</body>', () => driver));
  const [program, ...before] = [...unshared, browser];
  const run = spawnSync(program, [
    ...before,
    '--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking', '--no-first-run',
    '--proxy-server=127.0.0.1:1', `--user-data-dir=${join(folder, 'profile')}`, '--virtual-time-budget=20000',
    ...options, `file://${file}`,
  ], { encoding: 'utf8' });
  assert.equal(run.status, 0, run.stderr);
  return run.stdout;
};

/** The DOM once the page has its verdict: the browser's virtual time does not wait for files and hashes. */
const verified = (one, folder) => {
  let dom = '';
  for (let attempt = 0; attempt < 10 && (dom === '' || dom.includes('<pre id="lines"></pre>')); attempt += 1) {
    dom = shown(one, folder, ['--dump-dom']);
  }
  return dom;
};

test('the page from disk and without a network says what Node says', { skip }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'page-'));
  try {
    for (const [name, style, heading] of [
      ['good', 'good', 'VALID_CHAIN'],
      ['cut after 2', 'open', 'UNSEALED'],
      ['two swapped', 'bad', 'E_SEQ@1'],
      ['diff: a bit flipped', 'bad', 'E_DIFF_HASH@1'],
      ['journal: good', 'good', 'VALID_CHAIN'],
      ['journal: two swapped', 'bad', 'journal E_SEQ@0'],
      ['exports: of another run', 'bad', 'exports E_EXPORT@0'],
      ['keyring: the second key signed', 'good', 'VALID_CHAIN'],
      ['key: y of p', 'bad', 'E_KEY@0'],
    ]) {
      const one = cases.find((candidate) => candidate.name === name);
      const dom = verified(one, folder);
      assert.ok(dom.includes(`<pre id="lines">${one.lines.join('\n')}</pre>`), `${name}: ${dom.slice(-3000)}`);
      assert.ok(dom.includes(`<p id="verdict" class="${style}">${heading}</p>`), `${name}: ${dom.slice(-3000)}`);
    }
    if (process.env.WHIPSTITCH_SCREENSHOT !== undefined) {
      const one = cases.find(({ name }) => name === (process.env.WHIPSTITCH_SCREENSHOT_OF ?? 'journal: good'));
      shown(one, folder, [`--screenshot=${process.env.WHIPSTITCH_SCREENSHOT}`, '--window-size=1000,1400']);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test('what was shown goes away when the key is changed to none', { skip }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'page-'));
  try {
    const one = cases.find(({ name }) => name === 'good');
    const spoil = `
      const key = document.getElementById('key');
      while (document.getElementById('result').hidden) await new Promise((after) => { setTimeout(after, 20); });
      key.value = 'no key';
      key.dispatchEvent(new Event('input'));`;
    const gone = '<p id="wanted">This is no key.</p>';
    let dom = '';
    for (let attempt = 0; attempt < 10 && !dom.includes(gone); attempt += 1) dom = shown(one, folder, ['--dump-dom'], spoil);
    assert.ok(dom.includes(gone), dom.slice(-3000));
    assert.match(dom, /<section id="result"[^>]* hidden=""/);
    assert.ok(dom.includes(one.lines[0]), 'it was shown before');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
