/** Which state of which line of states these bytes are; zero and empty where they are not a Terraform state. */
export function stateIdentity(state: Uint8Array): { serial: number; lineage: string } {
  if (state.length === 0) return { serial: 0, lineage: '' };
  try {
    const { serial, lineage } = JSON.parse(Buffer.from(state).toString('utf8')) as {
      serial?: number;
      lineage?: string;
    };
    return { serial: Number.isSafeInteger(serial) ? serial! : 0, lineage: lineage ?? '' };
  } catch {
    return { serial: 0, lineage: '' };
  }
}
