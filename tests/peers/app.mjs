// Lets npm's @octokit/app ask a GitHub who it is, with a JWT of somebody else's making, and holds that
// JWT to the form of the one that it would have made itself.
// arguments: the API, the app's id; input: JSON of the JWT and the private key
import { readFileSync } from 'node:fs';
import { App, Octokit } from '@octokit/app';

const [, api, appId] = process.argv;
const { jwt, privateKey } = JSON.parse(readFileSync(0, 'utf8'));
const part = (token, at) => JSON.parse(Buffer.from(token.split('.')[at], 'base64url').toString());
const Client = Octokit.defaults({ baseUrl: api, userAgent: 'tests' });

const theirs = await new App({ appId, privateKey, Octokit: Client }).octokit.auth({ type: 'app' });
const forms = [jwt, theirs.token].map((token) => ({
  header: part(token, 0),
  claims: Object.keys(part(token, 1)).sort(),
  issuer: String(part(token, 1).iss),
  life: part(token, 1).exp - part(token, 1).iat,
}));
const [ours, octokit] = forms;
if (JSON.stringify([ours.header.alg, ours.header.typ, ours.claims, ours.issuer])
    !== JSON.stringify([octokit.header.alg, octokit.header.typ, octokit.claims, octokit.issuer])
    || ours.life <= 0 || ours.life > octokit.life) {
  throw new Error(`another form: ${JSON.stringify(forms)}`);
}

const expiresAt = new Date(part(jwt, 1).exp * 1000).toISOString();
const app = new App({ appId, createJwt: async () => ({ jwt, expiresAt }), Octokit: Client });
const { data } = await app.octokit.request('GET /app');
console.log(`${data.slug} ${data.id}`);
