// Says so when this computer runs on its battery. Only some browsers tell, and a missing
// battery is no reason for a warning.

export async function watchBattery(say) {
  let battery;
  try {
    battery = await navigator.getBattery?.();
  } catch {
    return;
  }
  if (!battery) return;
  const tell = () => {
    const left = Math.round(battery.level * 100);
    say(battery.charging ? "" : `This computer runs on its battery (${left} % left). Giving empties it sooner: plug it in, or give fewer slots.`);
  };
  battery.addEventListener("chargingchange", tell);
  battery.addEventListener("levelchange", tell);
  tell();
}
