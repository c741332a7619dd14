import { setEnabled } from './set-enabled.ts';

export default setEnabled(true);
