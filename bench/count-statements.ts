// A pipe in front of PostgreSQL that counts the statements that go through it.
import { pipeDatabase } from '@ropewalk/testkit/database-pipe';

export interface StatementCounter {
  /** The given URL, through the counter. */
  url: string;
  /** Statements executed so far. */
  count(): number;
  close(): void;
}

const STARTUP_HEAD = 4;
const HEAD = 5;

/** Counts `Execute` and simple `Query` messages of the client's half of a connection, without keeping their bytes. */
function statements(counted: () => void): (chunk: Buffer) => void {
  let head = Buffer.alloc(0);
  let skip = 0;
  let startup = true;
  return (chunk) => {
    let rest = chunk;
    while (rest.length > 0) {
      if (skip > 0) {
        const taken = Math.min(skip, rest.length);
        skip -= taken;
        rest = rest.subarray(taken);
        continue;
      }
      const wanted = startup ? STARTUP_HEAD : HEAD;
      const taken = Math.min(wanted - head.length, rest.length);
      head = Buffer.concat([head, rest.subarray(0, taken)]);
      rest = rest.subarray(taken);
      if (head.length < wanted) return;
      const type = startup ? '' : String.fromCharCode(head[0]!);
      if (type === 'E' || type === 'Q') counted();
      skip = head.readUInt32BE(startup ? 0 : 1) - 4;
      startup = false;
      head = Buffer.alloc(0);
    }
  };
}

export async function countStatements(databaseUrl: string): Promise<StatementCounter> {
  let count = 0;
  const pipe = await pipeDatabase(databaseUrl, () => statements(() => count++));
  return { url: pipe.url, count: () => count, close: pipe.close };
}
