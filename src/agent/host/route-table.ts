/**
 * Owns the port to the kernel's addresses and routes: which addresses this device has, and which traffic uses the
 * driver interface.
 */

/** The driver interface as the kernel knows it. */
export interface RoutedInterface {
  readonly name: string;
  /** 0 where it is not there. */
  readonly index: number;
}

export interface LocalAddresses {
  /** Every address of this device, and whether it is on that interface. */
  readonly addresses: ReadonlyMap<string, boolean>;
  /** Those of them that are away at the moment, where this is remembered. */
  readonly away?: ReadonlySet<string>;
  readonly interface: RoutedInterface;
}

/** Where packets go, and from which address if it is one of this device. */
export interface RouteLookup {
  readonly remote: string;
  readonly local?: string;
}

export interface RouteTable {
  readLocal(interfaceName: string): Promise<LocalAddresses>;
  /** Those of the ways that lead over the interface. One without a route leads nowhere. */
  over(routed: RoutedInterface, ways: readonly RouteLookup[]): Promise<ReadonlySet<RouteLookup>>;
}
