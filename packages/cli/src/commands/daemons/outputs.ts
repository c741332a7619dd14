/**
 * Lets a daemon continue when it cannot write stdout or stderr, such as to a closed pipe or a full disk. Other commands
 * end in that case, since their output is their purpose.
 */
export function outliveOutputs(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.removeAllListeners('error');
    stream.on('error', () => {});
  }
}
