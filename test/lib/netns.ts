/** Owns the way of tests to network namespaces: they are the lab's. */
export {
  CommandFailed,
  connect,
  hardwareAddress,
  Namespace,
  type VethEnd,
  type Outcome,
} from '../../src/cli/lab/namespace.ts';
