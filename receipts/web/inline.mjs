// Writes verify.html: page.html with verify.mjs inside, so that one file works from disk.
// usage: node receipts/web/inline.mjs

import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));

/** The page as it must be. The command line's part is left out, and nothing else is changed. */
export const page = () => {
  const source = readFileSync(at('./verify.mjs'), 'utf8');
  const library = source.slice(0, source.indexOf('// The command line.\n'));
  if (library.length === 0 || library.includes('</script')) throw new Error('verify.mjs cannot be inlined');
  const parts = readFileSync(at('./page.html'), 'utf8').split('//VERIFIER//\n');
  if (parts.length !== 2) throw new Error('page.html must have one place for the verifier');
  return parts.join(library.replaceAll(/^export /gm, ''));
};

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(at('./verify.html'), page());
