import { UNKNOWN } from '../values.ts';
import { type Fn, MANY } from './types.ts';

const later = (least: number, most = least): Fn => ({ least, most, nulls: true, structural: true, run: () => UNKNOWN });

/**
 * Functions whose result only a Terraform run has: it depends on the time or on chance, on the machine, on marks that
 * values have only there, or on how a compression library writes its bytes.
 */
export const deferred: Record<string, Fn> = {
  abspath: later(1),
  base64gzip: later(1),
  bcrypt: later(1, 2),
  ephemeralasnull: later(1),
  issensitive: later(1),
  plantimestamp: later(0),
  timestamp: later(0),
  uuid: later(0, MANY),
};
