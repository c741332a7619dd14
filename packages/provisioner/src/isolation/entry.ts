// The launcher as a program. Apart from its code: in a bundle every module believes itself to be the main one.
import { runLauncher } from './launcher.ts';

runLauncher();
