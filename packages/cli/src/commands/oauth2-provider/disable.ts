import { setRegistration } from './set-registration.ts';

export default setRegistration(false);
