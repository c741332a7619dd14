/** The host of an address, or the scheme of one that opens a program, such as `vscode:`. */
export function hostOf(address: string): string {
  if (!URL.canParse(address)) return address;
  const { protocol, host } = new URL(address);
  return protocol === 'http:' || protocol === 'https:' ? host : protocol;
}
