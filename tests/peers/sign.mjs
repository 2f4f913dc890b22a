// Signs files with npm's @octokit/webhooks-methods, and holds what it signed to its own verification.
// arguments: the secret; input: names of files; output: one signature per line
import { readFileSync } from 'node:fs';
import { sign, verify } from '@octokit/webhooks-methods';

const secret = process.argv[1];
for (const name of readFileSync(0, 'utf8').split('\n').filter(Boolean)) {
  const body = readFileSync(name, 'utf8');
  const signature = await sign(secret, body);
  if (!(await verify(secret, body, signature))) throw new Error(`${name} is not verified`);
  console.log(signature);
}
