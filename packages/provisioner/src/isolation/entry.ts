// Starts the launcher as a program. A file of its own, because in a bundle every module looks like the main module.
import { runLauncher } from './launcher.ts';

runLauncher();
