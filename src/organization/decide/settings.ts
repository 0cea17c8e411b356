/** Owns what a write makes of the settings of an organization. */

/** The settings with what the patch gives; undefined where that changes nothing. */
export function settled<Settings extends object>(
  before: Settings,
  patch: { readonly [Name in keyof Settings]?: Settings[Name] | undefined },
): Settings | undefined {
  const given = (Object.entries(patch) as [keyof Settings, Settings[keyof Settings] | undefined][]).filter(
    ([name, value]) => value !== undefined && value !== before[name],
  );
  return given.length === 0 ? undefined : { ...before, ...(Object.fromEntries(given) as Partial<Settings>) };
}
