/** Whether an Accept-Encoding header names this encoding, and not with the weight 0. */
export function acceptsEncoding(header: string, encoding: string): boolean {
  return header.split(',').some((part) => {
    const [name = '', ...parameters] = part
      .trim()
      .toLowerCase()
      .split(/\s*;\s*/);
    return name === encoding && !parameters.some((text) => /^q=0(\.0*)?$/.test(text));
  });
}
