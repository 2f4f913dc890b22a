// Verifies a run's receipts with WebCrypto and nothing else: in Node 20 or newer, and in a browser.
//
// It shares no code with the Rust verifier and must print the same bytes for every input; the corpus in
// `../vectors` holds both to that. Bytes in, verdict out: no clock, no network, no locale. The key always
// comes from the caller, never from the evidence.

const MAX_RECEIPT = 16 * 1024;
const MAX_DIFF = 64 * 1024 * 1024;
const MAX_CHAIN = 100_000;
const MAX_LINE = MAX_RECEIPT + 130;
export const MAX_KEYRING = 1 << 20;
const ZEROS = '0'.repeat(64);

// Every check has a name. The tests replace this line, and nothing else can.
const on = () => true;

/** A failed check: its code is the verdict. */
class Failure extends Error {
  constructor(code) {
    super(code);
    this.code = code;
  }
}

const fail = (code) => {
  throw new Failure(code);
};

// Bytes and texts.

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

const isHex = (text, digits) =>
  typeof text === 'string' && text.length === digits && /^[0-9a-f]*$/.test(text);

const unhex = (text) => Uint8Array.from({ length: text.length / 2 }, (_, n) => parseInt(text.slice(2 * n, 2 * n + 2), 16));

const utf8 = (text) => new TextEncoder().encode(text);

// `ignoreBOM` keeps a BOM in the text, where it is an error like any other character.
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const lossy = new TextDecoder('utf-8', { ignoreBOM: true });

const same = (a, b) => a.length === b.length && a.every((byte, n) => byte === b[n]);

const sha256 = async (bytes) => new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));

const base64 = (bytes) => {
  let text = '';
  for (let n = 0; n < bytes.length; n += 4096) text += String.fromCharCode(...bytes.subarray(n, n + 4096));
  return btoa(text);
};

// The flat grammar: one object of texts and integers, in RFC 8785 form.

const ODD_NUMBER = Symbol('a number in another form than an integer has');
const LITERALS = new Map([['null', null], ['true', true], ['false', false]]);
const ESCAPES = { '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };

class Scanner {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  spaces() {
    while (this.at < this.text.length && ' \t\n\r'.includes(this.text[this.at])) this.at += 1;
  }

  skips(character) {
    if (this.text[this.at] !== character) return false;
    this.at += 1;
    return true;
  }

  take(character) {
    if (!this.skips(character)) fail('E_JSON');
  }

  object() {
    const members = [];
    this.spaces();
    this.take('{');
    this.spaces();
    if (!this.skips('}')) {
      do {
        this.spaces();
        const name = this.string();
        this.spaces();
        this.take(':');
        this.spaces();
        members.push([name, this.value()]);
        this.spaces();
      } while (this.skips(','));
      this.take('}');
    }
    this.spaces();
    return members;
  }

  value() {
    const character = this.text[this.at];
    if (character === '"') return this.string();
    if (character !== undefined && /[-0-9]/.test(character)) return this.number();
    for (const [word, value] of LITERALS) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    return fail('E_JSON');
  }

  number() {
    const number = /-?(?:0|[0-9]+)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
    number.lastIndex = this.at;
    const text = number.exec(this.text)?.[0] ?? fail('E_JSON');
    // What is left of a dot or an exponent without digits.
    this.at += text.length;
    const next = this.text[this.at];
    if (next === '.' || ((next === 'e' || next === 'E') && !/[eE]/.test(text))) fail('E_JSON');
    const plain = /^[0-9]+$/.test(text) && text.length <= 16 && Number(text) <= Number.MAX_SAFE_INTEGER;
    return plain ? Number(text) : ODD_NUMBER;
  }

  string() {
    this.take('"');
    let value = '';
    for (;;) {
      if (this.at >= this.text.length) fail('E_JSON');
      const character = this.text[this.at];
      this.at += 1;
      if (character === '"') return value;
      if (character === '\\') value += this.escape();
      else if (character < ' ' && on('ControlCharacter')) fail('E_JSON');
      else value += character;
    }
  }

  escape() {
    const character = this.text[this.at];
    this.at += 1;
    if (character !== 'u') return Object.hasOwn(ESCAPES, character) ? ESCAPES[character] : fail('E_JSON');
    const unit = this.unit();
    if (unit >= 0xdc00 && unit <= 0xdfff) fail('E_JSON');
    if (unit < 0xd800 || unit > 0xdfff) return String.fromCharCode(unit);
    this.take('\\');
    this.take('u');
    const low = this.unit();
    if (low < 0xdc00 || low > 0xdfff) fail('E_JSON');
    return String.fromCharCode(unit, low);
  }

  unit() {
    const digits = this.text.slice(this.at, this.at + 4);
    if (!/^[0-9a-fA-F]{4}$/.test(digits)) fail('E_JSON');
    this.at += 4;
    return parseInt(digits, 16);
  }
}

const SHORT = { '"': '\\"', '\\': '\\\\', '\b': '\\b', '\t': '\\t', '\n': '\\n', '\f': '\\f', '\r': '\\r' };

const writeText = (text) => {
  const escaped = text.replace(/["\\\u0000-\u001f]/g, (character) =>
    SHORT[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
  return `"${escaped}"`;
};

const writeValue = (value) => {
  if (typeof value === 'string') return writeText(value);
  // Never what was read, so that the bytes differ.
  return value === ODD_NUMBER ? '0' : String(value);
};

// `<` compares UTF-16 units, which is the order that RFC 8785 asks for.
const write = (members) => {
  const sorted = [...new Map(members)].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return `{${sorted.map(([name, value]) => `${writeText(name)}:${writeValue(value)}`).join(',')}}`;
};

const read = (bytes) => {
  let text;
  try {
    text = decoder.decode(bytes);
  } catch {
    if (on('Utf8')) fail('E_UTF8');
    text = lossy.decode(bytes);
  }
  const scanner = new Scanner(text);
  const members = scanner.object();
  if (on('Trailing') && scanner.at !== text.length) fail('E_JSON');
  if (on('CanonicalBytes') && !same(utf8(write(members)), bytes)) fail('E_NONCANON');
  return members;
};

// Members: which each kind has, and what each may be.

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/;

const isTime = (text) => {
  const parts = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)Z$/.exec(text);
  if (parts === null || text.length !== 20) return false;
  const [year, month, day, hour, minute, second] = parts.slice(1).map(Number);
  const leap = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  const days = [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
  return year > 0 && month >= 1 && month <= 12 && day >= 1 && day <= days[month - 1]
    && hour < 24 && minute < 60 && second < 60;
};

const isObject = (text) =>
  (text.startsWith('sha1:') && isHex(text.slice(5), 40)) || (text.startsWith('sha256:') && isHex(text.slice(7), 64));

const text = (name, fits) => (value) => !on(name) || (typeof value === 'string' && fits(value));
const word = (...words) => text('RuleWord', (value) => words.includes(value));
const Hash = text('RuleHash', (value) => isHex(value, 64));
const KeyId = text('RuleKeyId', (value) => value.startsWith('ed25519:') && isHex(value.slice(8), 64));
const Actor = text('RuleActor', (value) => value.length <= 128 && /^[a-z0-9][a-z0-9._:/@+-]*$/.test(value) && !value.endsWith('\n'));
const Reason = text('RuleReason', (value) => {
  const length = utf8(value).length;
  return length >= 1 && length <= 1024 && !HIDDEN.test(value);
});
const Time = text('RuleTime', isTime);
const GitObject = text('RuleObject', isObject);
const Int = (value) => !on('RuleInt') || Number.isInteger(value);
const Positive = (value) => !on('RulePositive') || (Number.isInteger(value) && value > 0);

const RECEIPT = 'urn:x-whipstitch:receipt:v1';
const COMMON = {
  actor: Actor, as_of: Time, issued_at: Time, key_id: KeyId, kind: word('open', 'apply', 'seal'),
  prev: Hash, reason: Reason, run: Hash, seq: Int,
};
const RECEIPT_KINDS = {
  open: { ...COMMON, base: GitObject, job: Hash },
  apply: {
    ...COMMON, diff_len: Positive, diff_sha256: Hash, journal_ref: Hash, tree_after: GitObject, tree_before: GitObject,
  },
  seal: {
    ...COMMON, count: Int, head: Hash, journal_head: Hash,
    outcome: word('succeeded', 'failed', 'halted', 'aborted'), tree_after: GitObject,
  },
};

const DECISION = 'urn:x-whipstitch:authorization:v1';
const DECIDED = {
  actor: Actor, issued_at: Time, key_id: KeyId, kind: word('authorize', 'push'), prev: Hash, reason: Reason, run: Hash,
};
const DECISION_KINDS = {
  authorize: {
    ...DECIDED, diff_sha256: Hash, head_commit: GitObject, origin: Reason,
    role: word('none', 'read', 'triage', 'write', 'maintain', 'admin'),
  },
  push: { ...DECIDED, commit: GitObject, ref: Reason, tree: GitObject },
};

// The journal's kinds, each with those that it may follow; steps stand between and count for nothing.
const JOURNAL = 'urn:x-whipstitch:journal:v1';
const NOT_FIRST_OR_LAST = [
  'admit', 'intent', 'launched', 'exited', 'lost', 'candidate', 'check', 'authorise', 'applied',
];
const MAY_FOLLOW = {
  plan: [undefined],
  admit: ['plan'],
  step: NOT_FIRST_OR_LAST,
  intent: ['admit', 'applied', 'lost', 'exited', 'candidate', 'check', 'authorise'],
  launched: ['intent'],
  exited: ['launched'],
  lost: ['intent', 'launched'],
  candidate: ['exited'],
  check: ['candidate', 'check'],
  authorise: ['candidate', 'check'],
  applied: ['authorise'],
  seal: NOT_FIRST_OR_LAST,
};
const ENTRY = { body: Hash, issued_at: Time, key_id: KeyId, prev: Hash, run: Hash, seq: Int, subject: Reason };
const JOURNAL_KINDS = Object.fromEntries(Object.keys(MAY_FOLLOW).map((kind) => [kind, { ...ENTRY, kind: word(kind) }]));

/** Holds members against `_type` and the rules of their kind; gives them by name. */
const typed = (members, type, kinds) => {
  const record = new Map(members);
  if (on('Type') && record.get('_type') !== type) fail('E_TYPE');
  const kind = record.get('kind');
  if (typeof kind !== 'string' || !Object.hasOwn(kinds, kind)) fail('E_SCHEMA');
  const rules = Object.entries(kinds[kind]);
  if (on('Members') && members.length !== rules.length + 1) fail('E_SCHEMA');
  if (!rules.every(([name, admits]) => record.has(name) && admits(record.get(name)))) fail('E_SCHEMA');
  if (on('AsOf') && record.has('as_of') && record.get('as_of') > record.get('issued_at')) fail('E_SCHEMA');
  return Object.fromEntries(record);
};

// Keys and signatures: strict Ed25519, where WebCrypto alone would let more through.

const P = 2n ** 255n - 19n;
const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;
const D = 37095705934669439343138083508754565189542113879843219016388785533085940283555n;
// The y of the points of small order: 0 (order 4), 1, -1 (order 2), and the two of order 8.
const SMALL = [
  0n, 1n, P - 1n,
  2707385501144840649318225287225658788936804267575313519463743609750303402022n,
  55188659117513257062467267217118295137698188065244968500265048394206261417927n,
];

const littleEndian = (bytes) => BigInt(`0x${hex(bytes.slice().reverse())}`);

const power = (base, exponent) => {
  let [result, square] = [1n, base % P];
  for (let rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = (result * square) % P;
    square = (square * square) % P;
  }
  return result;
};

/** The encoded point's y and the sign of its x. */
const point = (bytes) => {
  const encoded = littleEndian(bytes);
  return { y: encoded & (2n ** 255n - 1n), sign: encoded >> 255n };
};

const isCanonical = ({ y, sign }) => y < P && !((y === 1n || y === P - 1n) && sign === 1n);

const isOnCurve = ({ y }) => {
  const [numerator, denominator] = [(y * y - 1n) % P, (D * y * y + 1n) % P];
  const square = (((numerator * power(denominator, P - 2n)) % P) + P) % P;
  return square === 0n || power(square, (P - 1n) / 2n) === 1n;
};

/** A key that signatures may be held against, from 32 raw bytes; throws `E_KEY`. */
const importKey = async (raw) => {
  if (raw.length !== 32) fail('E_KEY');
  const a = point(raw);
  if (on('KeyCanonical') && !isCanonical(a)) fail('E_KEY');
  if (on('KeySmallOrder') && SMALL.includes(a.y % P)) fail('E_KEY');
  if (on('KeyOnCurve') && !isOnCurve(a)) fail('E_KEY');
  const key = await crypto.subtle.importKey('raw', raw, { name: 'Ed25519' }, false, ['verify']);
  return { key, id: `ed25519:${hex(await sha256(raw))}` };
};

const verifies = async ({ key }, message, signature) => {
  const r = point(signature.subarray(0, 32));
  const strict = isCanonical(r) && !SMALL.includes(r.y) && littleEndian(signature.subarray(32)) < ORDER;
  if (on('SignatureStrict') && !strict) return false;
  return crypto.subtle.verify({ name: 'Ed25519' }, key, signature, message);
};

/** For tests against published vectors: whether a raw key strictly verifies a signature. */
export const verifySignature = async (raw, message, signature) => {
  try {
    return signature.length === 64 && (await verifies(await importKey(raw), message, signature));
  } catch (error) {
    if (error instanceof Failure) return false;
    throw error;
  }
};

// Keyrings: each rotation is signed by the key that goes and the key that comes.

const ROTATION = 'urn:x-whipstitch:rotation:v1';
const ROTATION_KINDS = {
  rotate: { issued_at: Time, key_id: KeyId, kind: word('rotate'), new_key: Hash, prev: Hash, reason: Reason, seq: Int },
};

const rotation = async (line, ring) => {
  const tabs = [line.lastIndexOf(9)];
  tabs.unshift(tabs[0] > 0 ? line.lastIndexOf(9, tabs[0] - 1) : -1);
  if (tabs[0] < 0) fail('E_JSON');
  const bytes = line.subarray(0, tabs[0]);
  const record = typed(read(bytes), ROTATION, ROTATION_KINDS);
  const [old, key] = [ring.keys.at(-1), await importKey(unhex(record.new_key))];
  if (on('KeyringOldKey') && record.key_id !== old.id) fail('E_KEYID');
  if (on('KeyringUsedKey') && ring.keys.some(({ id }) => id === key.id)) fail('E_KEYID');
  const signs = (by, cell) => verifies(by, bytes, signatureIn(cell));
  if (on('KeyringOldSignature') && !(await signs(old, line.subarray(tabs[0] + 1, tabs[1])))) fail('E_SIG');
  if (on('KeyringNewSignature') && !(await signs(key, line.subarray(tabs[1] + 1)))) fail('E_SIG');
  if (on('KeyringSeq') && record.seq !== ring.keys.length - 1) fail('E_SEQ');
  if (on('KeyringPrev') && record.prev !== ring.head) fail('E_PREV');
  if (on('KeyringTime') && record.issued_at < ring.at) fail('E_TIME');
  return { keys: [...ring.keys, key], head: hex(await sha256(bytes)), at: record.issued_at };
};

/** The keys that a first key leads to, or the line that does not follow and why. */
const readKeyring = async (raw, bytes) => {
  let [ring, index] = [undefined, 0];
  try {
    ring = { keys: [await importKey(raw)], head: ZEROS, at: '' };
    if (on('KeyringSize') && bytes.length > MAX_KEYRING) fail('E_SIZE');
    for (let rest = bytes; rest.length > 0; index += 1) {
      const end = rest.indexOf(10);
      if (on('KeyringLine') && end < 0) fail('E_JSON');
      const line = end < 0 ? rest : rest.subarray(0, end);
      rest = rest.subarray(line.length + 1);
      ring = await rotation(line, ring);
    }
    return ring;
  } catch (error) {
    if (error instanceof Failure) return { index, why: error.code };
    throw error;
  }
};

/** The keys from the one of this id on; all of them where none has it. */
const keysFrom = (keys, id) => keys.slice(Math.max(0, keys.findIndex((key) => key.id === id)));

// One signed record, up to its signature; it must be signed by one of the keys.

const readSigned = async ({ bytes, signature }, keys, type, kinds) => {
  if (on('ReceiptSize') && bytes.length > MAX_RECEIPT) fail('E_SIZE');
  const record = typed(read(bytes), type, kinds);
  const key = keys.find(({ id }) => id === record.key_id) ?? (on('KeyId') ? fail('E_KEYID') : keys[0]);
  if (on('Signature') && !(await verifies(key, bytes, signature))) fail('E_SIG');
  return record;
};

const readReceipt = async (signed, keys, files) => {
  const record = await readSigned(signed, keys, RECEIPT, RECEIPT_KINDS);
  if (record.kind !== 'apply') return record;
  const diff = await files.bytes(`${numbered(record.seq)}.diff`, MAX_DIFF + 1);
  if (diff === undefined) fail('E_DIFF_LEN');
  if (on('DiffSize') && diff.length > MAX_DIFF) fail('E_SIZE');
  if (on('DiffLen') && diff.length !== record.diff_len) fail('E_DIFF_LEN');
  if (on('DiffHash') && hex(await sha256(diff)) !== record.diff_sha256) fail('E_DIFF_HASH');
  return record;
};

const numbered = (seq) => String(seq).padStart(4, '0');

// Bundles: each line is the record, a TAB, 128 lowercase hex digits, LF. One line is held at a time.

const NO_SIGNATURE = new Uint8Array(64).fill(0xff);

/** 128 lowercase hex digits; in any other form it is a signature that no key verifies. */
const signatureIn = (cell) => {
  const digits = cell.length === 128 ? String.fromCharCode(...cell) : '';
  return isHex(digits, 128) ? unhex(digits) : NO_SIGNATURE;
};

const readLine = (line) => {
  const tab = line.lastIndexOf(9);
  if (tab < 0 && on('LineForm')) fail('E_JSON');
  return tab < 0
    ? { bytes: line, signature: NO_SIGNATURE }
    : { bytes: line.subarray(0, tab), signature: signatureIn(line.subarray(tab + 1)) };
};

async function* bundleLines(chunks) {
  const limit = on('LineSize') ? MAX_LINE : Infinity;
  let held = new Uint8Array(0);
  for await (const chunk of chunks) {
    let rest = chunk;
    while (rest.length > 0) {
      const end = rest.indexOf(10);
      const part = end < 0 ? rest : rest.subarray(0, end);
      if (held.length + part.length + 1 > limit) fail('E_SIZE');
      held = held.length === 0 ? part.slice() : joined(held, part);
      if (end < 0) break;
      yield readLine(held);
      held = new Uint8Array(0);
      rest = rest.subarray(end + 1);
    }
  }
  if (held.length > 0) fail('E_JSON');
}

const joined = (a, b) => {
  const both = new Uint8Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
};

async function* numberedFiles(files) {
  for (let seq = 0; ; seq += 1) {
    const bytes = await files.bytes(`${numbered(seq)}.receipt.json`, MAX_RECEIPT + 1);
    if (bytes === undefined) return;
    const signature = await files.bytes(`${numbered(seq)}.sig`, 65);
    yield { bytes, signature: signature?.length === 64 ? signature : NO_SIGNATURE };
  }
}

/** The signed records of a file of the evidence; none where there is no such file. */
async function* recordsOf(files, name) {
  const chunks = await files.chunks(name);
  if (chunks !== undefined) yield* bundleLines(chunks);
  else if (name === 'run.receipts') yield* numberedFiles(files);
}

// Each verdict is a word, or a code and an index.

const code = (name, index) => ({ word: `${name}@${index}`, exit: 1 });
const VALID_CHAIN = { word: 'VALID_CHAIN', exit: 0 };
const VALID_RECEIPT = { word: 'VALID_RECEIPT', exit: 0 };
const UNSEALED = { word: 'UNSEALED', exit: 3 };

/** Calls `follow(record, index)` for each record; gives the verdict of the first that fails. */
const each = async (records, follow, atEnd) => {
  let index = 0;
  try {
    for await (const record of records) {
      await follow(record, index);
      index += 1;
    }
    return await atEnd(index);
  } catch (error) {
    if (error instanceof Failure) return code(error.code, index);
    throw error;
  }
};

const emptyChain = () => ({
  run: '', count: 0, head: ZEROS, keyId: '', issuedAt: '', tree: undefined, sealed: false, outcome: '', journalHead: '',
  applied: [], rows: [], verdict: undefined,
});

const followChain = (chain, record, index) => {
  const { kind } = record;
  if (on('Run') && index > 0 && record.run !== chain.run) fail('E_RUN');
  if (on('Seq') && record.seq !== index) fail('E_SEQ');
  if (on('OpenFirst') && (kind === 'open') !== (index === 0)) fail('E_SEQ');
  if (on('Prev') && record.prev !== chain.head) fail('E_PREV');
  if (on('Time') && record.issued_at < chain.issuedAt) fail('E_TIME');
  const start = kind === 'seal' ? record.tree_after : record.tree_before;
  if (on('Tree') && kind !== 'open' && chain.tree !== undefined && chain.tree !== start) fail('E_TREE');
  if (on('AfterSeal') && chain.sealed) fail('E_AFTER_SEAL');
  if (on('SealCount') && kind === 'seal' && record.count !== index) fail('E_SEAL');
  if (on('SealHead') && kind === 'seal' && record.head !== record.prev) fail('E_SEAL');
};

const keepReceipt = async (chain, record, bytes) => {
  chain.count += 1;
  chain.head = hex(await sha256(bytes));
  chain.run = record.run;
  chain.keyId = record.key_id;
  chain.issuedAt = record.issued_at;
  if (record.kind !== 'open') chain.tree = record.tree_after;
  if (record.kind === 'apply') chain.applied.push([record.journal_ref, record.diff_sha256]);
  if (record.kind === 'seal') {
    chain.sealed = true;
    chain.outcome = record.outcome;
    chain.journalHead = record.journal_head;
  }
  chain.rows.push({ ...record, digest: chain.head });
};

const verifyChain = async (files, keyring, request) => {
  const chain = emptyChain();
  let keys = keyring;
  chain.verdict = await each(
    recordsOf(files, 'run.receipts'),
    async (signed, index) => {
      if (on('ChainSize') && index >= MAX_CHAIN) fail('E_SIZE');
      const record = await readReceipt(signed, keys, files);
      followChain(chain, record, index);
      await keepReceipt(chain, record, signed.bytes);
      if (on('OneKey')) keys = keysFrom(keys, chain.keyId).slice(0, 1);
    },
    () => {
      if (on('ExpectedHead') && request.expectHead !== undefined && request.expectHead !== chain.head) fail('E_EXPECTED');
      if (on('ExpectedCount') && request.expectCount !== undefined && request.expectCount !== chain.count) fail('E_EXPECTED');
      return on('Sealed') && !chain.sealed ? UNSEALED : VALID_CHAIN;
    },
  );
  return chain;
};

/** One receipt and its diff; says nothing of completeness, and reads no further. */
const verifyOne = async (files, keys, seq) => {
  const chain = emptyChain();
  let index = 0;
  try {
    for await (const signed of recordsOf(files, 'run.receipts')) {
      if (index === seq) {
        const record = await readReceipt(signed, keys, files);
        if (record.seq !== seq) fail('E_SEQ');
        return { ...chain, run: record.run, head: hex(await sha256(signed.bytes)), verdict: VALID_RECEIPT };
      }
      index += 1;
    }
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return { ...chain, verdict: code(error.code, index) };
  }
  return { ...chain, verdict: code('E_SEQ', seq) };
};

// The journal, and its ties to the receipts.

const followEntry = async (state, chain, record, index, bytes) => {
  if (on('Run') && record.run !== (chain.run || state.run || record.run)) fail('E_RUN');
  if (on('Seq') && record.seq !== index) fail('E_SEQ');
  if (on('Prev') && record.prev !== state.head) fail('E_PREV');
  if (on('Time') && record.issued_at < state.at) fail('E_TIME');
  if (on('JournalOrder') && (state.sealed || !MAY_FOLLOW[record.kind].includes(state.last))) fail('J_ORDER');
  const digest = hex(await sha256(bytes));
  tieEntry(state, chain, record, digest);
  state.run = record.run;
  state.at = record.issued_at;
  state.head = digest;
  state.sealed = record.kind === 'seal';
  state.count += 1;
  if (record.kind !== 'step') state.last = record.kind;
};

const tieEntry = (state, chain, { kind, subject, body }, digest) => {
  switch (kind) {
    case 'intent':
      if (on('JournalAttempt') && state.attempts.has(subject)) fail('J_ORDER');
      state.attempts.add(subject);
      state.attempt = subject;
      state.intent = digest;
      break;
    case 'launched':
      if (on('JournalLaunchBody') && body !== state.intent) fail('J_REF');
      if (on('JournalLaunchSubject') && subject !== state.attempt) fail('J_REF');
      break;
    case 'exited':
    case 'lost':
      if (on('JournalExitSubject') && subject !== state.attempt) fail('J_REF');
      break;
    case 'candidate':
      state.candidate = body;
      break;
    case 'authorise':
      if (on('JournalCandidate') && body !== state.candidate) fail('J_REF');
      state.authorised = digest;
      break;
    case 'applied':
      if (on('JournalCandidate') && body !== state.candidate) fail('J_REF');
      tieApplied(state, chain, body);
      break;
    default:
  }
};

const tieApplied = (state, chain, body) => {
  const receipt = chain.applied[state.applied];
  state.applied += 1;
  if (receipt === undefined) {
    if (on('JournalCount')) fail('J_COUNT');
    return;
  }
  if (on('JournalRef') && receipt[0] !== state.authorised) fail('J_REF');
  if (on('JournalDiff') && receipt[1] !== body) fail('J_REF');
};

const verifyJournal = async (files, keyring, chain) => {
  let keys = chain.keyId !== '' && on('OneKey') ? keysFrom(keyring, chain.keyId).slice(0, 1) : keyring;
  const state = {
    run: '', head: ZEROS, at: '', last: undefined, sealed: false, count: 0, applied: 0, authorised: '', intent: ZEROS,
    attempt: '', attempts: new Set(), candidate: '',
  };
  const verdict = await each(
    recordsOf(files, 'run.journal'),
    async (signed, index) => {
      if (index >= MAX_CHAIN) fail('J_COUNT');
      const record = await readSigned(signed, keys, JOURNAL, JOURNAL_KINDS);
      await followEntry(state, chain, record, index, signed.bytes);
      if (on('OneKey')) keys = keysFrom(keys, record.key_id).slice(0, 1);
    },
    () => {
      if (on('JournalSealed') && state.last !== 'seal') fail('J_UNSEALED');
      if (on('JournalCount') && chain.applied.length !== state.applied) fail('J_COUNT');
      if (on('JournalHead') && chain.journalHead !== state.head) fail('J_REF');
      return VALID_CHAIN;
    },
  );
  return { verdict, detail: ` count=${state.count} head=${state.head}` };
};

// What people decided after the seal: perhaps long after, so by the chain's key or by a later one.

const verifyDecisions = async (files, keyring, chain) => {
  let keys = keysFrom(keyring, chain.keyId);
  let authorization;
  const verdict = await each(
    recordsOf(files, 'run.authorizations'),
    async (signed, index) => {
      if (index >= MAX_CHAIN) fail('E_SIZE');
      const record = await readSigned(signed, keys, DECISION, DECISION_KINDS);
      const push = record.kind === 'push';
      if (on('AuthorizationRun') && record.run !== chain.run) fail('E_RUN');
      if (on('AuthorizationPrev') && record.prev !== (push ? authorization : chain.head)) fail('E_PREV');
      if (on('AuthorizationSealed') && !chain.sealed) fail('E_PREV');
      if (on('AuthorizationTime') && record.issued_at < chain.issuedAt) fail('E_TIME');
      if (on('AuthorizationTree') && push && record.tree !== (chain.tree ?? '')) fail('E_TREE');
      if (!push) authorization = hex(await sha256(signed.bytes));
      else if (on('AuthorizationOnce')) authorization = undefined;
      if (on('AuthorizationKey')) keys = keysFrom(keys, record.key_id);
    },
    () => VALID_RECEIPT,
  );
  return { verdict, detail: '' };
};

// Exports: DSSE envelopes, composed again from the receipt and compared.

const PAYLOAD_TYPE = 'application/vnd.in-toto+json';

const statementOf = async (bytes) => {
  const record = typed(read(bytes), RECEIPT, RECEIPT_KINDS);
  const [digest, name] = record.kind === 'apply'
    ? [record.diff_sha256, `${numbered(record.seq)}.diff`]
    : [hex(await sha256(bytes)), `${numbered(record.seq)}.receipt.json`];
  return `{"_type":"https://in-toto.io/Statement/v1","predicate":${decoder.decode(bytes)},`
    + `"predicateType":"${RECEIPT}","subject":[{"digest":{"sha256":"${digest}"},"name":"${name}"}]}`;
};

const verifyExport = async (envelope, bytes, key) => {
  const statement = utf8(await statementOf(bytes));
  const before = `{"payload":"${base64(statement)}","payloadType":"${PAYLOAD_TYPE}","signatures":[{"keyid":"${key.id}","sig":"`;
  const after = '"}]}';
  const text = new TextDecoder('latin1').decode(envelope);
  const form = text.startsWith(before) && text.endsWith(after) && text.length === before.length + 88 + after.length;
  const signature = form ? signatureOf(text.slice(before.length, before.length + 88)) : undefined;
  if (signature === undefined) {
    if (on('ExportForm')) fail('E_EXPORT');
    return;
  }
  const encoding = joined(utf8(`DSSEv1 ${PAYLOAD_TYPE.length} ${PAYLOAD_TYPE} ${statement.length} `), statement);
  if (on('ExportSignature') && !(await verifies(key, encoding, signature))) fail('E_EXPORT');
};

/** 64 bytes in the one base64 text that they have. */
const signatureOf = (text) => {
  try {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    return bytes.length === 64 && base64(bytes) === text ? bytes : undefined;
  } catch {
    return undefined;
  }
};

const verifyExports = async (files, keys, chain) => {
  const [key] = keysFrom(keys, chain.keyId);
  const verdict = await each(
    recordsOf(files, 'run.receipts'),
    async ({ bytes }, index) => {
      const envelope = await files.bytes(`${numbered(index)}.dsse.json`, 2 * MAX_RECEIPT + 1);
      if (envelope === undefined) fail('E_EXPORT');
      await verifyExport(envelope, bytes, key);
    },
    () => VALID_RECEIPT,
  );
  return { verdict, detail: ` count=${chain.count}` };
};

// All of it.

const chainLine = ({ verdict, run, count, head, outcome }) => {
  const name = run === '' ? '-' : run;
  if (verdict === VALID_CHAIN) return `VALID_CHAIN run=${name} count=${count} head=${head} outcome=${outcome}`;
  if (verdict === UNSEALED) return `UNSEALED run=${name} count=${count} head=${head}`;
  if (verdict === VALID_RECEIPT) return `VALID_RECEIPT run=${name} head=${head}`;
  return verdict.word;
};

const PARTS = [
  ['journal', verifyJournal],
  ['authorizations', verifyDecisions],
  ['exports', verifyExports],
];

/**
 * Verifies evidence. `files` has `chunks(name)`, an iterable of `Uint8Array`s, and `bytes(name, limit)`; both
 * give `undefined` where there is no such file. `request` has `expectHead`, `expectCount`, `receipt`, `journal`,
 * `authorizations`, `exports`, and `keyring`, the bytes of one. Gives the lines, the exit code, the chain with its
 * rows, and where the verdict is about the keyring, why.
 */
export const verifyEvidence = async (files, rawKey, request = {}) => {
  const { keys, index, why } = await readKeyring(rawKey, request.keyring ?? new Uint8Array(0));
  if (keys === undefined) {
    const chain = { ...emptyChain(), verdict: code('E_KEY', index) };
    return { lines: [chain.verdict.word], exit: 1, chain, why };
  }
  if (request.receipt !== undefined) {
    const chain = await verifyOne(files, keys, request.receipt);
    return { lines: [chainLine(chain)], exit: chain.verdict.exit, chain };
  }
  const chain = await verifyChain(files, keys, request);
  const lines = [chainLine(chain)];
  let { exit } = chain.verdict;
  for (const [name, verifyPart] of exit === 1 ? [] : PARTS) {
    if (!request[name]) continue;
    const { verdict, detail } = await verifyPart(files, keys, chain);
    lines.push(`${name} ${verdict.word}${verdict.exit === 0 ? detail : ''}`);
    if (exit !== 1 && verdict.exit !== 0) exit = verdict.exit;
  }
  return { lines, exit, chain };
};

/** What a person gives as a key: 32 raw bytes, 64 hex digits, or an SPKI PEM. `undefined` if it is none. */
export const parseKey = (input) => {
  if (input.length === 32) return input;
  const text = new TextDecoder('latin1').decode(input).replace(/^[ \t\n\f\r]+|[ \t\n\f\r]+$/g, '');
  if (isHex(text, 64)) return unhex(text);
  const pem = /^-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/= \t\n\f\r]*)-----END PUBLIC KEY-----$/.exec(text);
  const digits = pem?.[1].replace(/[ \t\n\f\r]/g, '') ?? '';
  // 44 bytes of DER are 60 digits, of which one is padding.
  if (!/^[A-Za-z0-9+/]{59}=$/.test(digits)) return undefined;
  const der = Uint8Array.from(atob(digits), (character) => character.charCodeAt(0));
  const isEd25519 = hex(der.subarray(0, 12)) === '302a300506032b6570032100' && base64(der) === digits;
  return isEd25519 ? der.slice(12) : undefined;
};

/** Evidence in memory: names and bytes. */
export const memoryFiles = (files) => ({
  chunks: (name) => (Object.hasOwn(files, name) ? [files[name]] : undefined),
  bytes: (name, limit) => (Object.hasOwn(files, name) ? files[name].subarray(0, limit) : undefined),
});

// The command line.

const USAGE = `usage: node verify.mjs BUNDLE --key KEY [--keyring FILE] [--expect-head H] [--expect-count N]
                       [--receipt SEQ] [--journal] [--authorizations] [--exports]
BUNDLE is run.receipts or the folder that holds it; KEY is 64 lowercase hex digits or a file`;

/** A sentence for the person who called. */
class Usage extends Error {}

const usage = (why) => {
  throw new Usage(why);
};

/** The evidence at a path; what is no file, such as a pipe that never ends, is not there. */
const folderFiles = async (path) => {
  const [fs, { dirname, basename, join }] = await Promise.all([import('node:fs'), import('node:path')]);
  const found = fs.statSync(path);
  if (!found.isDirectory() && !found.isFile()) usage(`${path} is neither a folder nor a file`);
  const folder = found.isDirectory() ? path : dirname(path);
  const open = (name) => {
    const place = join(folder, found.isFile() && name === 'run.receipts' ? basename(path) : name);
    try {
      return fs.statSync(place).isFile() ? fs.openSync(place) : undefined;
    } catch {
      return undefined;
    }
  };
  return {
    chunks: (name) => {
      const fd = open(name);
      return fd === undefined ? undefined : fs.createReadStream('', { fd });
    },
    bytes: (name, limit) => {
      const fd = open(name);
      return fd === undefined ? undefined : readUpTo(fs, fd, limit);
    },
  };
};

/** At most so many bytes of an open file, which is closed. */
const readUpTo = (fs, fd, limit) => {
  const parts = [];
  try {
    for (let left = limit; left > 0; left -= parts.at(-1).length) {
      const part = new Uint8Array(Math.min(left, 1 << 16));
      const length = fs.readSync(fd, part);
      if (length === 0) break;
      parts.push(part.subarray(0, length));
    }
  } finally {
    fs.closeSync(fd);
  }
  return parts.length === 1 ? parts[0] : new Uint8Array(Buffer.concat(parts));
};

/** A key given as hex, or as a file. What is no key at all is told as one of no bytes, which is `E_KEY`. */
const keyOf = async (text) => {
  if (isHex(text, 64)) return unhex(text);
  const { readFileSync } = await import('node:fs');
  return parseKey(new Uint8Array(readFileSync(text))) ?? new Uint8Array(0);
};

const keyringOf = async (path) => {
  if (path === undefined) return undefined;
  const fs = await import('node:fs');
  return readUpTo(fs, fs.openSync(path), MAX_KEYRING + 1);
};

/** Reads the arguments after the program's name; throws a sentence for a person. */
export const parseArguments = (list) => {
  const request = {};
  const rest = [...list];
  const value = (name) => rest.shift() ?? usage(`${name} needs a value`);
  const number = (text) => (/^[0-9]{1,15}$/.test(text) ? Number(text) : usage(`${text} is no number`));
  while (rest.length > 0) {
    const argument = rest.shift();
    if (argument === '--key') request.key = value(argument);
    else if (argument === '--keyring') request.keyring = value(argument);
    else if (argument === '--expect-head') request.expectHead = value(argument).replace(/^sha256:/, '');
    else if (argument === '--expect-count') request.expectCount = number(value(argument));
    else if (argument === '--receipt') request.receipt = number(value(argument));
    else if (['--journal', '--authorizations', '--exports'].includes(argument)) request[argument.slice(2)] = true;
    else if (!argument.startsWith('-') && request.bundle === undefined) request.bundle = argument;
    else usage(`${argument} is not known`);
  }
  if (request.expectHead !== undefined && !isHex(request.expectHead, 64)) usage('a head has 64 lowercase hex digits');
  return request;
};

const main = async () => {
  try {
    const request = parseArguments(process.argv.slice(2));
    if (request.bundle === undefined || request.key === undefined) usage('a bundle and a key are needed');
    const [files, key, keyring] = await Promise.all([folderFiles(request.bundle), keyOf(request.key), keyringOf(request.keyring)]);
    const { lines, exit, why } = await verifyEvidence(files, key, { ...request, keyring });
    process.stdout.write(`${lines.join('\n')}\n`);
    if (why !== undefined) process.stderr.write(`the key or the keyring is not good: ${why}\n`);
    process.exitCode = exit;
  } catch (error) {
    process.stderr.write(`${error.message}\n${error instanceof Usage ? `${USAGE}\n` : ''}`);
    process.exitCode = 2;
  }
};

const isMain = async () => {
  if (typeof process === 'undefined' || !process.argv?.[1] || !import.meta.url.startsWith('file:')) return false;
  const [{ pathToFileURL }, { realpathSync }] = await Promise.all([import('node:url'), import('node:fs')]);
  return import.meta.url === pathToFileURL(realpathSync(process.argv[1])).href;
};

if (await isMain()) await main();
