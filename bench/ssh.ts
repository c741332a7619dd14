import type { Row } from './measure.ts';
export async function benchSsh(): Promise<Row[]> {
  return [];
}
