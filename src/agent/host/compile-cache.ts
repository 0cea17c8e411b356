/** Owns what the runtime compiled at this start, for the next one. */

/** From Node 22 on. */
interface ModuleCache {
  readonly flushCompileCache?: () => void;
}

/**
 * Writes it down where the unit says that it should be kept. By itself the runtime does so at a clean end only, which a device that loses
 * power never has.
 */
export const keepCompiled = (): void => (process.getBuiltinModule('node:module') as ModuleCache).flushCompileCache?.();
