// Starts the process that hashes passwords as a program. See process.ts.
import { hashHere } from './argon2.ts';
import type { HashAnswer, HashQuestion } from './process.ts';

process.on('message', async ({ id, password, salt, cost }: HashQuestion) => {
  const hash = await hashHere(password, Buffer.from(salt), cost);
  process.send!({ id, hash } satisfies HashAnswer);
});
// the server has ended
process.on('disconnect', () => process.exit());
process.send!('ready');
