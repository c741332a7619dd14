// Starts the launcher as a program. A separate file, because in a bundle every module looks like the main module.
import { endOnCrash } from '@ropewalk/kit/crash';
import { runLauncher } from './launcher.ts';

endOnCrash({ program: 'the launcher of builds' });
runLauncher();
