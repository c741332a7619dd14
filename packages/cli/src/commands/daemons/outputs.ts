/**
 * A daemon goes on when its stdout or stderr cannot be written: a closed pipe, a full disk. Other commands end then,
 * since their output is what they are for.
 */
export function outliveOutputs(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.removeAllListeners('error');
    stream.on('error', () => {});
  }
}
