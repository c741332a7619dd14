import { setEnabled } from './set-enabled.ts';

export default setEnabled(false);
