/** Prints what 1,000,000 devices in 10,000 organizations need, added up from measured unit costs (`simulation/simulation.ts`). It measures nothing itself. */
import { report } from './simulation/simulation.ts';

console.log(report());
