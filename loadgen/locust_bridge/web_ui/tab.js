// Puts servemark's page below Locust's tabs while the tab "servemark" is the selected one.
(() => {
  const frame = document.createElement("iframe");
  frame.src = "./servemark/";
  frame.title = "servemark";
  frame.style.cssText = "display: none; width: 100%; border: 0; min-height: 70vh";

  const selected = () =>
    [...document.querySelectorAll('[role="tab"][aria-selected="true"]')].some((tab) => tab.textContent === "servemark");

  function update() {
    const main = document.querySelector("main");
    if (main && frame.parentNode !== main) main.append(frame);
    const display = selected() ? "block" : "none";
    if (frame.style.display !== display) frame.style.display = display;
  }

  new MutationObserver(update).observe(document.getElementById("root"), {
    childList: true,
    subtree: true,
    attributes: true,
    attributeFilter: ["aria-selected"],
  });
  update();
})();
