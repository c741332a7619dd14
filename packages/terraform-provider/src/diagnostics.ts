/** A position in a configuration: attribute names and list indexes, from the outside in. */
export type Path = readonly (string | number)[];

export interface Diagnostic {
  severity: 'error' | 'warning';
  summary: string;
  detail: string;
  path: Path;
}

/**
 * Collects a handler's errors and warnings about a configuration. Their text never contains a value that may be secret.
 */
export class Diagnostics {
  readonly list: Diagnostic[] = [];

  error(path: Path, summary: string, detail = ''): void {
    this.list.push({ severity: 'error', summary, detail, path });
  }

  warning(path: Path, summary: string, detail = ''): void {
    this.list.push({ severity: 'warning', summary, detail, path });
  }

  get failed(): boolean {
    return this.list.some((d) => d.severity === 'error');
  }
}
