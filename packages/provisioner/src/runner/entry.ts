// Starts the runner as a program. A separate file, because in a bundle every module looks like the main module.
import { endOnCrash } from '@ropewalk/kit/crash';
import { runRunner } from './main.ts';

endOnCrash({ program: 'the runner of a provisioner daemon' });
runRunner();
