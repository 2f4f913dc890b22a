// The web verifier's lines for ../vectors/compare: of the corpus, or of mutations that Rust has judged.
// usage: node verdicts.mjs corpus FILE | mutations FILE COUNT

import { createReadStream, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

import { memoryFiles, parseArguments, verifyEvidence } from './verify.mjs';

const content = (file) => {
  if (typeof file === 'string') return new Uint8Array(Buffer.from(file));
  if (file.base64 !== undefined) return new Uint8Array(Buffer.from(file.base64, 'base64'));
  return new Uint8Array(Buffer.from(file.before + file.unit.repeat(file.times) + file.after));
};

const verify = ({ files, key, arguments: list }) => {
  const bytes = Object.fromEntries(Object.entries(files).map(([name, file]) => [name, content(file)]));
  const request = parseArguments(list);
  const rawKey = new Uint8Array(Buffer.from(key, 'hex'));
  return verifyEvidence(memoryFiles(bytes), rawKey, { ...request, keyring: bytes[request.keyring] });
};

const [what, file, wanted] = process.argv.slice(2);
if (what === 'corpus') {
  for (const one of JSON.parse(readFileSync(file, 'utf8'))) {
    const { lines, exit } = await verify(one);
    console.log(`${one.name}\t${exit}\t${lines.join(' / ')}`);
  }
} else {
  const codes = new Map();
  let count = 0;
  for await (const line of createInterface({ input: createReadStream(file) })) {
    const one = JSON.parse(line);
    const { lines, exit } = await verify(one);
    if (exit !== one.exit || lines.join() !== one.lines.join()) {
      console.log(`${one.name}: ${one.lines.join(' / ')} in Rust, ${lines.join(' / ')} here`);
      process.exitCode = 1;
    }
    const word = lines.at(-1).match(/[A-Z][A-Z_]+[0-9]?/)[0];
    codes.set(word, (codes.get(word) ?? 0) + 1);
    count += 1;
  }
  console.log(`${count} mutations: ${[...codes].sort().map(([word, times]) => `${word} ${times}`).join(', ')}`);
  if (count !== Number(wanted)) {
    console.log(`${wanted} were to come`);
    process.exitCode = 1;
  }
  if (process.exitCode === undefined) console.log('no difference, and none was valid');
}
