// Starts npm's @simulacrum/github-api-simulator on a free port, with nothing in it: each request is held
// to GitHub's whole description and answered by an example.
import { simulation } from '@simulacrum/github-api-simulator';

const free = 0;
const { server } = await simulation().listen(free);
console.log(`ready at http://127.0.0.1:${server.address().port}`);
