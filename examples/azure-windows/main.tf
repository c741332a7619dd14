terraform {
  required_providers {
    coder = {
      source = "coder/coder"
    }
    azurerm = {
      source = "hashicorp/azurerm"
    }
    random = {
      source = "hashicorp/random"
    }
  }
}

data "coder_parameter" "location" {
  name         = "location"
  display_name = "Location"
  description  = "Where the virtual machine runs."
  default      = "germanywestcentral"
  mutable      = false
  option {
    name  = "Frankfurt"
    value = "germanywestcentral"
  }
  option {
    name  = "Virginia"
    value = "eastus"
  }
  option {
    name  = "Singapore"
    value = "southeastasia"
  }
}

data "coder_parameter" "size" {
  name         = "size"
  display_name = "Size"
  description  = "The machine's cores and memory."
  default      = "Standard_B2ms"
  mutable      = true
  option {
    name  = "2 cores, 8 GiB"
    value = "Standard_B2ms"
  }
  option {
    name  = "4 cores, 16 GiB"
    value = "Standard_B4ms"
  }
}

data "coder_parameter" "home_size" {
  name         = "home_size"
  display_name = "Home disk"
  description  = "The size of the disk for your home folder, in GiB."
  type         = "number"
  default      = 20
  mutable      = false
  validation {
    min = 10
    max = 512
  }
}

provider "azurerm" {
  features {}
}

data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}

locals {
  name = "workspace-${substr(data.coder_workspace.me.id, 0, 8)}"
  tags = {
    coder-owner        = data.coder_workspace_owner.me.name
    coder-workspace    = data.coder_workspace.me.name
    coder-workspace-id = data.coder_workspace.me.id
  }
}

resource "coder_agent" "main" {
  os   = "windows"
  arch = "amd64"
  dir  = "F:\\"
}

resource "azurerm_resource_group" "workspace" {
  name     = local.name
  location = data.coder_parameter.location.value
  tags     = local.tags
}

resource "azurerm_virtual_network" "workspace" {
  name                = "network"
  address_space       = ["10.0.0.0/24"]
  location            = azurerm_resource_group.workspace.location
  resource_group_name = azurerm_resource_group.workspace.name
  tags                = local.tags
}

resource "azurerm_subnet" "workspace" {
  name                 = "internal"
  resource_group_name  = azurerm_resource_group.workspace.name
  virtual_network_name = azurerm_virtual_network.workspace.name
  address_prefixes     = ["10.0.0.0/29"]
}

resource "azurerm_network_interface" "workspace" {
  name                = "interface"
  location            = azurerm_resource_group.workspace.location
  resource_group_name = azurerm_resource_group.workspace.name
  tags                = local.tags
  ip_configuration {
    name                          = "internal"
    subnet_id                     = azurerm_subnet.workspace.id
    private_ip_address_allocation = "Dynamic"
  }
}

resource "azurerm_managed_disk" "home" {
  name                 = "home"
  location             = azurerm_resource_group.workspace.location
  resource_group_name  = azurerm_resource_group.workspace.name
  tags                 = local.tags
  storage_account_type = "StandardSSD_LRS"
  create_option        = "Empty"
  disk_size_gb         = data.coder_parameter.home_size.value
}

# Azure requires a password for the administrator. Nobody uses it: people connect through the agent.
resource "random_password" "unused" {
  length      = 32
  min_lower   = 1
  min_upper   = 1
  min_numeric = 1
  min_special = 1
}

resource "azurerm_windows_virtual_machine" "workspace" {
  count                 = data.coder_workspace.me.start_count
  name                  = local.name
  computer_name         = "workspace"
  location              = azurerm_resource_group.workspace.location
  resource_group_name   = azurerm_resource_group.workspace.name
  size                  = data.coder_parameter.size.value
  network_interface_ids = [azurerm_network_interface.workspace.id]
  admin_username        = "coder"
  admin_password        = random_password.unused.result
  tags                  = local.tags

  os_disk {
    caching              = "ReadWrite"
    storage_account_type = "StandardSSD_LRS"
    disk_size_gb         = 127
  }
  source_image_reference {
    publisher = "MicrosoftWindowsServer"
    offer     = "WindowsServer"
    sku       = "2022-datacenter-azure-edition"
    version   = "latest"
  }
}

resource "azurerm_virtual_machine_data_disk_attachment" "home" {
  count              = data.coder_workspace.me.start_count
  managed_disk_id    = azurerm_managed_disk.home.id
  virtual_machine_id = azurerm_windows_virtual_machine.workspace[0].id
  lun                = 10
  caching            = "ReadWrite"
}

# Prepares the disk at its first start, and starts the agent.
resource "azurerm_virtual_machine_run_command" "agent" {
  count              = data.coder_workspace.me.start_count
  depends_on         = [azurerm_virtual_machine_data_disk_attachment.home]
  name               = "agent"
  location           = azurerm_resource_group.workspace.location
  virtual_machine_id = azurerm_windows_virtual_machine.workspace[0].id
  tags               = local.tags

  source {
    script = <<-EOT
      param([string]$Token)
      $raw = Get-Disk | Where-Object PartitionStyle -eq RAW
      if ($raw) {
        $raw | Initialize-Disk -PartitionStyle GPT -PassThru | New-Partition -DriveLetter F -UseMaximumSize |
          Format-Volume -FileSystem NTFS -NewFileSystemLabel home | Out-Null
      } else {
        Get-Partition | Where-Object { $_.Type -eq "Basic" -and -not $_.DriveLetter } | Set-Partition -NewDriveLetter F
      }
      $init = [Text.Encoding]::UTF8.GetString([Convert]::FromBase64String("${base64encode(coder_agent.main.init_script)}"))
      New-Item -ItemType Directory -Force C:\coder | Out-Null
      Set-Content C:\coder\agent.ps1 ('$env:CODER_AGENT_TOKEN = "' + $Token + '"' + "`r`n" + $init)
      $run = New-ScheduledTaskAction -Execute powershell.exe -Argument "-ExecutionPolicy Bypass -File C:\coder\agent.ps1"
      $as = New-ScheduledTaskPrincipal -UserId SYSTEM -RunLevel Highest
      Register-ScheduledTask coder -Action $run -Principal $as -Trigger (New-ScheduledTaskTrigger -AtStartup) -Force
      Start-ScheduledTask coder
    EOT
  }
  protected_parameter {
    name  = "Token"
    value = coder_agent.main.token
  }
}
