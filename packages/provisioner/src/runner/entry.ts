// Starts the runner as a program. A file of its own, because in a bundle every module looks like the main module.
import { runRunner } from './main.ts';

runRunner();
