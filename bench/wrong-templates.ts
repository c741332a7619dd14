// What other people notice while daemons import templates that fail, some of which take all the time they get.
import { firstUser, importVersion, startCoderServer } from '../e2e/harness.ts';
import { WRONG_TEMPLATES } from '../e2e/wrong-templates/cases.ts';
import { median, percentile, type Row } from './measure.ts';

const AT_ONCE = 3;
const ROUNDS = 3;
/** The time between two requests of the person who uses the API meanwhile, in ms. */
const PACE_MS = 4;

/** Expressions that take a daemon long to evaluate. */
const SLOW = [
  'locals {\n  a = [for x in range(1000) : [for y in range(1000) : x * y]]\n}\noutput "a" {\n  value = length(local.a)\n}\n',
  'locals {\n  a = regexall("(a|aa)+$", join("", [for x in range(1000) : "a"]))\n}\noutput "a" {\n  value = local.a\n}\n',
].map((main) => ({ files: { 'main.tf': main } }));

/** The times of a cheap request until `until`, in ms. */
async function times(url: string, token: string, until: () => boolean): Promise<number[]> {
  const took: number[] = [];
  while (!until() || took.length < 100) {
    const started = performance.now();
    const answer = await fetch(`${url}/api/v2/users/me`, { headers: { 'Coder-Session-Token': token } });
    await answer.arrayBuffer();
    took.push(performance.now() - started);
    await new Promise((done) => setTimeout(done, PACE_MS));
  }
  return took;
}

/** The 99th percentile of other requests during imports of wrong templates, and without them. */
export async function benchWrongTemplates(): Promise<Row[]> {
  const server = await startCoderServer({ env: { CODER_VERBOSE: 'false' } });
  try {
    await firstUser(server);
    const [beside, alone]: [number[], number[]] = [[], []];
    for (let round = 0; round < ROUNDS; round++) {
      const until = performance.now() + 1_000;
      alone.push(percentile(await times(server.url, server.token, () => performance.now() > until), 0.99));
      const queue = [...SLOW, ...WRONG_TEMPLATES.filter((_, at) => at % ROUNDS === round)];
      let done = false;
      const importing = Promise.all(
        Array.from({ length: AT_ONCE }, async () => {
          for (let one = queue.shift(); one; one = queue.shift()) await importVersion(server, one.files);
        }),
      ).finally(() => {
        done = true;
      });
      const [took] = await Promise.all([times(server.url, server.token, () => done), importing]);
      beside.push(percentile(took, 0.99));
    }
    const slower = median(beside) / median(alone);
    return [
      {
        what: `p99 of a request while ${AT_ONCE} daemons import ${WRONG_TEMPLATES.length} wrong templates and some slow ones`,
        ours: `${median(beside).toFixed(1)} ms`,
        floor: `${median(alone).toFixed(1)} ms (no imports)`,
        figure: `${slower.toFixed(1)}×`,
        reach: '≤ 2×',
        met: slower <= 2,
      },
    ];
  } finally {
    await server.stop();
  }
}
