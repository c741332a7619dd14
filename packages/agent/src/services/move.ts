import type { Service } from './service.ts';

/**
 * `{service: 'move'}`: the server ends soon, and another one is ready. The agent connects again, and serves the tunnels of
 * this connection until it ends.
 */
export function moveService(move: () => void): Service {
  return ({ accept }) => {
    const stream = accept();
    stream.on('error', () => {});
    stream.end();
    stream.resume();
    move();
  };
}
