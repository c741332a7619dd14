// The runner as a program. Apart from its code: in a bundle every module believes itself to be the main one.
import { runRunner } from './main.ts';

runRunner();
